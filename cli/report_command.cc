// `onnxfit report`: an estimate, or two side by side, as a page for a browser.
#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/compare_sides.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "estimator/advise/advice.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/study.h"
#include "estimator/fit/sweep.h"
#include "estimator/picture/comparison_page.h"
#include "estimator/picture/page.h"

namespace onnxfit {
namespace {

PageContent ContentOf(const Study& study, const Options& options, Progress& progress) {
  EstimateRequest request = options.request;
  request.curve_points = kPagePoints;
  request.modules = true;
  progress.Show("report: following the run, allocation by allocation");
  PageContent content = {.estimate = MakeEstimate(study, request), .version = ONNXFIT_VERSION};
  progress.Show("report: trying what would make it fit");
  for (JudgedTarget& judged : content.estimate.targets) {
    judged.advice = AdviseAtBatch(study, request, judged);
  }
  const Sweep batches = {.batches = BatchesAround(content.estimate.batch)};
  const size_t all = batches.batches.size();
  content.batches = RunSweep(study, options.request, batches, 0, [&](size_t done) {
    progress.Show(fmt::format("report: {} of {} other batches", done, all));
  });
  return content;
}

// Of two models, or of reports.
int RunComparison(const Options& options, std::ostream& out, std::string& reading) {
  ComparedSides sides = CompareSides(options, reading, kPagePoints);
  const int code = ExitCodeOf(sides.diff, options);
  const ComparisonContent content = {.diff = std::move(sides.diff),
                                     .before = std::move(sides.before.estimate),
                                     .after = std::move(sides.after.estimate),
                                     .version = ONNXFIT_VERSION};
  WriteReport(ToHtml(content), options, out);
  return code;
}

}  // namespace

int RunReport(const Options& options, std::ostream& out, std::ostream& err, std::string& reading) {
  CheckOutput(options, options.model, "the model");
  CheckTerminal(options, out, "a page for a browser");
  if (!options.old_model.empty()) return RunComparison(options, out, reading);
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("report: reading the model");
  const Graph graph = LoadModel(options.model);
  const Study study(graph);
  const PageContent content = ContentOf(study, AskedOf(graph, options), progress);
  progress.End();
  WriteReport(ToHtml(content), options, out);
  return ExitCodeOf(content.estimate.targets, options);
}

}  // namespace onnxfit
