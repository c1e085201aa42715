#include "estimator/picture/html.h"

#include <fmt/format.h>

#include <cctype>

#include "estimator/report/markup.h"

namespace onnxfit {

std::string Element(std::string_view tag, const Attributes& attributes, std::string_view inner) {
  std::string text = fmt::format("<{}", tag);
  for (const auto& [name, value] : attributes) {
    text += fmt::format(" {}", name);
    if (!value.empty()) text += fmt::format("=\"{}\"", XmlAttribute(value));
  }
  return text + fmt::format(">{}</{}>", inner, tag);
}

std::string HtmlText(std::string_view text) { return XmlText(text); }

std::string HtmlBreakable(std::string_view name) {
  std::string broken;
  for (const char c : XmlText(name)) {
    broken += c;
    if (c == '.' || c == '/' || c == '_') broken += "<wbr>";
  }
  return broken;
}

std::string HtmlCode(std::string_view name) { return "<code>" + HtmlBreakable(name) + "</code>"; }

std::string Sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

std::string Section(std::string_view id, std::string_view title, std::string_view inner) {
  const std::string heading = fmt::format("{}-title", id);
  return Element(
             "section", {{"id", id}, {"aria-labelledby", heading}},
             "\n" + Element("h2", {{"id", heading}}, HtmlText(title)) + "\n" + std::string(inner)) +
         "\n";
}

}  // namespace onnxfit
