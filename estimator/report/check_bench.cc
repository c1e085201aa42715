#include "estimator/report/check_bench.h"

#include "estimator/report/check_findings.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

// "fp32" of "\"fp32\"": settings are kept as JSON.
std::string ValueText(const std::string& value) {
  const Json json = Json::parse(value, nullptr, false);
  return json.is_string() ? json.get<std::string>() : value;
}

std::string SettingLines(const Snapshot& snapshot) {
  std::string lines = "model: " + PlainLine(snapshot.model);
  for (const auto& [name, value] : snapshot.settings) {
    lines += '\n' + name + ": " + PlainLine(ValueText(value));
  }
  return lines;
}

}  // namespace

std::string ToBench(const CheckAnswer& answer) {
  Json entries = Json::array();
  for (const CheckRow& row : answer.rows) {
    if (!row.now) continue;
    entries.push_back({{"name", PlainLine(row.name)},
                       {"unit", "bytes"},
                       {"value", row.now->device_bytes},
                       {"extra", SettingLines(*row.now)}});
  }
  return Dumped(entries) + '\n';
}

}  // namespace onnxfit
