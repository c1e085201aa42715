// `onnxfit estimate` with --lengths.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "estimator/base/error.h"
#include "estimator/fit/length_series.h"
#include "estimator/report/length_series.h"

namespace onnxfit {
namespace {

void CheckLengths(const Options& options) {
  const auto refuse = [](const std::string& where, const std::string& text) {
    throw Error({.where = where, .text = text});
  };
  if (!options.has_lengths) {
    throw Error({.where = "--lengths",
                 .text = "expected beside --steps, --seeds, --pad-to and --of-samples, found none",
                 .hint = "--lengths uniform:64..512"});
  }
  if (options.numbers.any() || options.runtime.runtime != Runtime::kTorch) {
    refuse("--lengths", "expected a MODEL file in PyTorch, found --params or --runtime");
  }
  if (!options.sweep.empty()) refuse("--lengths", "expected one run, found a list");
  const bool is_ours = options.format == Format::kText || options.format == Format::kJson;
  if (!is_ours || options.file_format) refuse("--format", "expected text or json beside --lengths");
  if (!options.request.why.empty()) refuse("--why", "expected without --lengths");
  for (const bool is_drawn : {options.tree, options.timeline}) {
    if (is_drawn) refuse("--lengths", "expected without --tree and --timeline");
  }
}

}  // namespace

int RunEstimateOverLengths(const Options& given, std::ostream& out, std::ostream& err) {
  CheckLengths(given);
  CheckOutput(given, given.model, "the model");
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("estimate: reading the model");
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  const Study study(graph);
  const LengthSeries series =
      PlayLengths(study, options.request, *options.lengths, [&](size_t done, size_t all) {
        progress.Show(fmt::format("estimate: {} of {} lengths", done, all));
      });
  progress.End();
  WriteReport(options.format == Format::kJson ? ToJson(series, {.version = ONNXFIT_VERSION})
                                              : ToText(series, WithColor(options, out)),
              options, out);
  std::vector<JudgedTarget> judged;
  for (const SeriesOnCard& card : series.cards) judged.push_back(card.judged);
  return ExitCodeOf(judged, options);
}

}  // namespace onnxfit
