// `onnxfit estimate` and `onnxfit max-batch` with --lengths.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/batch_trials.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "estimator/base/error.h"
#include "estimator/fit/length_series.h"
#include "estimator/report/length_series.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostInSeries = 1 << 20;  // a batch that nobody trains

// What goes with what, and from which nothing follows.
void CheckDrawn(const Options& options) {
  const auto refuse = [](const std::string& where, const std::string& text) {
    throw Error({.where = where, .text = text});
  };
  if (!options.has_lengths) {
    throw Error({.where = "--lengths",
                 .text = "expected beside --steps, --seeds, --seed, --samples, --tokens, --pad-to "
                         "and --of-samples, found none",
                 .hint = "--lengths uniform:64..512"});
  }
  if (!options.solve.empty()) refuse("--solve", "expected without --lengths");
  const LengthOptions& lengths = *options.lengths;
  if (lengths.tokens == 0) return;
  if (lengths.of_samples) refuse("--tokens", "expected without --of-samples");
  if (lengths.samples > 0) refuse("--tokens", "expected without --samples");
  if (options.request.binding.batch) {
    refuse("--tokens", "expected without --batch, which follows from the lengths");
  }
}

void CheckLengths(const Options& options) {
  const auto refuse = [](const std::string& where, const std::string& text) {
    throw Error({.where = where, .text = text});
  };
  CheckDrawn(options);
  if (options.numbers.any() || options.runtime.runtime != Runtime::kTorch) {
    refuse("--lengths", "expected a MODEL file in PyTorch, found --params or --runtime");
  }
  if (!options.sweep.empty()) refuse("--lengths", "expected one run, found a list");
  CheckTextOrJson(options, "--lengths");
  if (!options.request.why.empty()) refuse("--why", "expected without --lengths");
  for (const bool is_drawn : {options.tree, options.timeline}) {
    if (is_drawn) refuse("--lengths", "expected without --tree and --timeline");
  }
  CheckOutput(options, options.model, "the model");
}

// To the batch, and none that is larger than an epoch.
TrialLimits LimitsOfSeries(const Options& options) {
  TrialLimits limits = LimitsAsAsked(options, kMostInSeries);
  const int64_t samples = options.lengths->samples;
  if (samples > 0) limits.most = std::min(limits.most, samples);
  limits.is_exact = true;
  return limits;
}

SeriesSearch SearchSeries(const Study& study, const Options& options, const Target& target,
                          Progress& progress) {
  EstimateRequest request = options.request;
  request.targets = {target};
  request.settings.device = target.device;
  const auto run = [&](int64_t batch) {
    progress.Show(fmt::format("max-batch: batch {} on {}", batch, target.name));
    request.binding.batch = batch;
    return JudgeLengths(study, request, *options.lengths);
  };
  SeriesSearch search = {.found = TryBatches(LimitsOfSeries(options), run)};
  search.found.per_sample_bytes = 0;  // what is reserved by chance follows no line
  request.binding.batch = search.found.told();
  search.largest = PlayLengths(study, request, *options.lengths);
  bool& expandable = request.alloc_conf.conf.expandable_segments;
  const bool fits = search.largest.cards[0].judged.judgement.verdict == Verdict::kFits;
  if (fits || expandable) return search;
  expandable = true;
  search.expandable = JudgeLengths(study, request, *options.lengths).judgement.verdict;
  return search;
}

}  // namespace

int RunEstimateOverLengths(const Options& given, std::ostream& out, std::ostream& err) {
  CheckLengths(given);
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("estimate: reading the model");
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  const Study study(graph);
  const LengthSeries series =
      PlayChangedLengths(study, options.request, *options.lengths, [&](size_t done, size_t all) {
        progress.Show(fmt::format("estimate: {} of {} lengths", done, all));
      });
  progress.End();
  WriteTextOrJson(series, options, out);
  std::vector<JudgedTarget> judged;
  for (const SeriesOnCard& card : series.cards) judged.push_back(card.judged);
  return ExitCodeOf(judged, options);
}

int RunMaxBatchOverLengths(const Options& given, std::ostream& out, std::ostream& err) {
  CheckLengths(given);
  if (given.request.targets.empty()) {
    throw Error({.where = "--lengths",
                 .text = "expected a card for the largest batch, found none",
                 .hint = "--gpu t4"});
  }
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("max-batch: reading the model");
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  const Study study(graph);
  std::vector<SeriesSearch> searches;
  std::vector<JudgedTarget> judged;
  for (const Target& target : options.request.targets) {
    searches.push_back(SearchSeries(study, options, target, progress));
    judged.push_back(searches.back().largest.cards[0].judged);
  }
  progress.End();
  WriteTextOrJson(searches, options, out);
  return ExitCodeOf(judged, options);
}

}  // namespace onnxfit
