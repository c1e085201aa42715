#include "estimator/report/scalars_json.h"

#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

void AddScalars(const Json& object, const std::string& before,
                std::map<std::string, std::string>& scalars) {
  for (const auto& item : object.items()) {
    const Json& value = item.value();
    const bool is_opened = value.is_object() && before.empty();
    if (is_opened) AddScalars(value, item.key() + ".", scalars);
    if (is_opened || value.is_null() || (value.is_structured() && value.empty())) continue;
    scalars[before + item.key()] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

}  // namespace

std::map<std::string, std::string> ReadScalars(std::string_view text) {
  const Json json = ParseJson(text);
  if (!json.is_object()) throw Error({.text = "expected a JSON object, found another value"});
  std::map<std::string, std::string> scalars;
  AddScalars(json, "", scalars);
  return scalars;
}

std::vector<std::string> ReadTexts(std::string_view text) {
  const Json json = ParseJson(text);
  std::vector<std::string> texts;
  for (const Json& item : json.is_array() ? json : Json::array({json})) {
    if (!item.is_string()) throw Error({.text = "expected a list of texts, found " + item.dump()});
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

}  // namespace onnxfit
