// HTML, as text.  Internal to the room picture/.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace onnxfit {

using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// `<tag name="value">inner</tag>`; values are escaped, `inner` is HTML already.  An attribute with
// an empty value is a switch: `hidden`.
std::string Element(std::string_view tag, const Attributes& attributes, std::string_view inner);

// `text` between tags, escaped; what no page may hold is shown as in Clean.
std::string HtmlText(std::string_view text);

// The same of a name, whose lines end behind dots, slashes and underscores, not within a word.
std::string HtmlBreakable(std::string_view name);

// The same as code.
std::string HtmlCode(std::string_view name);

// "Grew by 2 GiB.": what reports say small, as a sentence of a page.
std::string Sentence(std::string text);

// A section with a heading that names it: `id` is of both.
std::string Section(std::string_view id, std::string_view title, std::string_view inner);

}  // namespace onnxfit
