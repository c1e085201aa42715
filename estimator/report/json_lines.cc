#include "estimator/report/json_lines.h"

#include <fmt/format.h>

#include <utility>

namespace onnxfit {
namespace {

bool IsFlat(const Json& json) {
  for (const Json& item : json) {
    if (item.is_structured()) return false;
  }
  return true;
}

bool IsOneLine(const Json& json) {
  for (const Json& item : json) {
    const bool is_list = item.is_array() && !item.empty() && IsFlat(item);
    if (item.is_structured() && !is_list) return false;
  }
  return true;
}

void Write(const Json& json, const std::string& indent, std::string& text) {
  if (!json.is_structured() || IsOneLine(json)) {
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  const bool is_object = json.is_object();
  const std::string inner = indent + "  ";
  text += is_object ? '{' : '[';
  bool is_first = true;
  for (const auto& item : json.items()) {
    text += fmt::format("{}\n{}", std::exchange(is_first, false) ? "" : ",", inner);
    if (is_object) text += Dumped(item.key()) + ": ";
    Write(item.value(), inner, text);
  }
  text += fmt::format("\n{}{}", indent, is_object ? '}' : ']');
}

}  // namespace

std::string InLines(const Json& json) {
  std::string text;
  Write(json, "", text);
  return text;
}

}  // namespace onnxfit
