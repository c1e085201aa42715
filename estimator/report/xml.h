// Text within XML 1.0, or HTML.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// `text` between tags: markup is escaped, lines stay.  What XML 1.0 forbids is U+FFFD (bad UTF-8,
// U+FFFE and U+FFFF) or "?" (control characters), as in Clean.
std::string XmlText(std::string_view text);

// The same between double quotes; line ends are spaces.
std::string XmlAttribute(std::string_view text);

}  // namespace onnxfit
