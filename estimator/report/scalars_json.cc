#include "estimator/report/scalars_json.h"

#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {

std::map<std::string, std::string> ReadScalars(std::string_view text) {
  const Json json = ParseJson(text);
  if (!json.is_object()) throw Error({.text = "expected a JSON object, found another value"});
  std::map<std::string, std::string> scalars;
  for (const auto& item : json.items()) {
    const Json& value = item.value();
    if (value.is_null() || value.is_structured()) continue;
    scalars[item.key()] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return scalars;
}

}  // namespace onnxfit
