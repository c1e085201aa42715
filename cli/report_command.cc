// `onnxfit report`: an estimate as a page for a browser.
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "estimator/advise/advice.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/study.h"
#include "estimator/fit/sweep.h"
#include "estimator/picture/page.h"

namespace onnxfit {
namespace {

PageContent ContentOf(const Study& study, const Options& options) {
  EstimateRequest request = options.request;
  request.curve_points = kPagePoints;
  request.modules = true;
  PageContent content = {.estimate = MakeEstimate(study, request), .version = ONNXFIT_VERSION};
  for (JudgedTarget& judged : content.estimate.targets) {
    judged.advice = AdviseAtBatch(study, request, judged);
  }
  const Sweep batches = {.batches = BatchesAround(content.estimate.batch)};
  content.batches = RunSweep(study, options.request, batches, 0);
  return content;
}

}  // namespace

int RunReport(const Options& options, std::ostream& out) {
  CheckOutput(options, options.model, "the model");
  const Graph graph = LoadModel(options.model);
  const Study study(graph);
  const PageContent content = ContentOf(study, options);
  WriteReport(ToHtml(content), options, out);
  std::vector<Judgement> judgements;
  for (const JudgedTarget& judged : content.estimate.targets) {
    judgements.push_back(judged.judgement);
  }
  return ExitCodeOf(judgements, options);
}

}  // namespace onnxfit
