#include "estimator/report/diff_json.h"

#include "estimator/report/comparison_json.h"
#include "estimator/report/verdict_json.h"

namespace onnxfit {

std::string ToJson(const Diff& diff, const JsonOptions& options) {
  Json report = {{"schema", 1}, {"version", options.version}};
  report.update(ComparisonJson(diff.comparison));
  if (diff.fail_above) report["grew_too_much"] = diff.grew_too_much();
  if (!diff.taken.empty()) report["taken_flags"] = diff.taken;
  for (size_t i = 0; i < diff.after.size(); ++i) {
    report["targets"].push_back(
        {{"old", TargetJson(diff.before[i])}, {"new", TargetJson(diff.after[i])}});
  }
  return Dumped(report) + '\n';
}

}  // namespace onnxfit
