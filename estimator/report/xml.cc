#include "estimator/report/xml.h"

#include <algorithm>

#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

struct Escape {
  std::string_view of;
  std::string_view text;
};

// ">" because "]]>" may not stand in text.
constexpr Escape kEscapes[] = {{"&", "&amp;"},
                               {"<", "&lt;"},
                               {">", "&gt;"},
                               {"\"", "&quot;"},
                               {"\xEF\xBF\xBE", "\xEF\xBF\xBD"},
                               {"\xEF\xBF\xBF", "\xEF\xBF\xBD"}};

const Escape* FindEscape(std::string_view text) {
  const auto* found =
      std::find_if(std::begin(kEscapes), std::end(kEscapes),
                   [&](const Escape& escape) { return text.starts_with(escape.of); });
  return found == std::end(kEscapes) ? nullptr : found;
}

std::string EscapedLine(std::string_view line) {
  const std::string clean = Clean(line, false);
  std::string escaped;
  for (size_t i = 0; i < clean.size();) {
    const Escape* escape = FindEscape(std::string_view(clean).substr(i));
    escaped += escape != nullptr ? escape->text : std::string_view(clean).substr(i, 1);
    i += escape != nullptr ? escape->of.size() : 1;
  }
  return escaped;
}

std::string EscapedLines(std::string_view text, char line_end) {
  std::string escaped;
  for (;;) {
    const size_t end = text.find('\n');
    escaped += EscapedLine(text.substr(0, end));
    if (end == std::string_view::npos) return escaped;
    escaped += line_end;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string XmlText(std::string_view text) { return EscapedLines(text, '\n'); }

std::string XmlAttribute(std::string_view text) { return EscapedLines(text, ' '); }

}  // namespace onnxfit
