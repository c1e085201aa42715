#include "cli/estimate_command.h"

#include "cli/output.h"
#include "cli/targets.h"
#include "estimator/graph/loader.h"
#include "estimator/report/json.h"
#include "estimator/report/text.h"

namespace onnxfit {
namespace {

std::string ReportOf(const Estimate& estimate, const Options& options, const std::ostream& out) {
  if (options.format == Format::kJson) {
    return ToJson(estimate, {.version = ONNXFIT_VERSION, .rows = options.text.rows});
  }
  return ToText(estimate, WithColor(options, out));
}

}  // namespace

int RunEstimate(const Options& options, std::ostream& out) {
  CheckOutput(options, options.model, "the model");
  const Graph graph = LoadGraph(options.model);
  const Estimate estimate = MakeEstimate(graph, options.request);
  WriteReport(ReportOf(estimate, options, out), options, out);
  std::vector<Judgement> judgements;
  for (const JudgedTarget& judged : estimate.targets) judgements.push_back(judged.judgement);
  return ExitCodeOf(judgements, options);
}

}  // namespace onnxfit
