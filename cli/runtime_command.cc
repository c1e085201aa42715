// `onnxfit estimate` and `onnxfit max-batch` with --runtime onnxruntime.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/batch_trials.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/runtime_trial.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/sweep.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostServed = 1 << 20;  // a batch that nobody serves

// What a session of the file has; the others are of a training step in PyTorch.
constexpr std::string_view kFlagsOfSessions[] = {
    "--batch",   "--dim",     "--shape",           "--mode",
    "--gpu",     "--memory",  "--reserve",         "--overhead",
    "--runtime", "--session", "--provider-option", "--io-binding"};

void CheckRuntimeFlags(const Options& options) {
  for (const TypedFlag& typed : options.typed) {
    const bool is_known =
        std::ranges::find(kFlagsOfSessions, typed.name) != std::end(kFlagsOfSessions);
    if (is_known) continue;
    throw Error({.where = typed.name,
                 .text = "expected without --runtime onnxruntime, which runs the file as it is"});
  }
  if (options.model.ends_with(".onnx")) return;
  throw Error({.file = options.model,
               .where = "--runtime onnxruntime",
               .text = "expected an ONNX file",
               .hint = "torch.onnx.export(model, inputs, \"model.onnx\")"});
}

void CheckRuntimeFormat(const Options& options) {
  const bool is_ours = options.format == Format::kText || options.format == Format::kJson;
  if (is_ours && !options.file_format) return;
  throw Error({.where = "--format", .text = "expected text or json beside --runtime onnxruntime"});
}

// What both commands ask first.
void CheckRuntime(const Options& options) {
  CheckRuntimeFlags(options);
  CheckRuntimeFormat(options);
  CheckOutput(options, options.model, "the model");
  if (!options.request.targets.empty()) return;
  throw Error({.where = "--runtime onnxruntime",
               .text = "expected a card, found none",
               .hint = "--gpu t4"});
}

template <typename Answers>
void WriteAnswers(const Answers& answers, const Options& options, std::ostream& out) {
  const std::string report = options.format == Format::kJson
                                 ? ToJson(answers, {.version = ONNXFIT_VERSION})
                                 : ToText(answers, WithColor(options, out));
  WriteReport(report, options, out);
}

TrialLimits LimitsOfSessions(const Options& options) {
  const int64_t multiple_of = options.limits.multiple_of;
  return {.least = multiple_of,
          .most = options.limits.most.value_or(kMostServed),
          .multiple_of = multiple_of,
          .is_strict = options.is_strict};
}

RuntimeSearch SearchOn(const Target& target, const Options& options, const Graph& graph,
                       std::ostream& err) {
  Progress progress(err, std::chrono::seconds(1));
  std::map<int64_t, RuntimeRun> runs;
  const auto run = [&](int64_t batch) {
    progress.Show(fmt::format("max-batch: batch {} under ONNX Runtime", batch));
    std::vector<EstimateRequest> requests = Combinations(options.request, options.sweep);
    for (EstimateRequest& request : requests) request.binding.batch = batch;
    runs[batch] = RunOnRuntime(options, graph, requests, target, err);
    return runs[batch].target;
  };
  RuntimeSearch search = {.found = TryBatches(LimitsOfSessions(options), run)};
  search.largest = std::move(runs.at(search.found.told()));
  return search;
}

}  // namespace

int RunEstimateOnRuntime(const Options& options, std::ostream& out, std::ostream& err) {
  CheckRuntime(options);
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("estimate: starting ONNX Runtime");
  const Graph graph = LoadModel(options.model);
  const std::vector<EstimateRequest> requests = Combinations(options.request, options.sweep);
  std::vector<RuntimeRun> runs;
  std::vector<JudgedTarget> judged;
  for (const Target& target : options.request.targets) {
    runs.push_back(RunOnRuntime(options, graph, requests, target, err));
    judged.push_back(runs.back().target);
  }
  progress.End();
  WriteAnswers(runs, options, out);
  return ExitCodeOf(judged, options);
}

int RunMaxBatchOnRuntime(const Options& options, std::ostream& out, std::ostream& err) {
  CheckRuntime(options);
  const Graph graph = LoadModel(options.model);
  std::vector<RuntimeSearch> searches;
  std::vector<JudgedTarget> judged;
  for (const Target& target : options.request.targets) {
    searches.push_back(SearchOn(target, options, graph, err));
    judged.push_back(searches.back().largest.target);
  }
  WriteAnswers(searches, options, out);
  return ExitCodeOf(judged, options);
}

}  // namespace onnxfit
