// `onnxfit estimate` and `onnxfit max-batch` with --runtime onnxruntime.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "cli/batch_trials.h"
#include "cli/commands.h"
#include "cli/host_trial.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/runtime_trial.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/sweep.h"
#include "estimator/report/host_run.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostServed = 1 << 20;  // a batch that nobody serves

// What a session of the file has; the others are of a training step in PyTorch.
constexpr std::string_view kFlagsOfSessions[] = {"--batch", "--dim", "--shape", "--mode"};
constexpr std::string_view kFlagsOfCards[] = {"--gpu", "--memory", "--reserve", "--overhead"};
constexpr std::string_view kFlagsOfCuda[] = {"--provider-option", "--io-binding"};

bool IsOnCpu(const Options& options) { return options.runtime.computes == RuntimeProvider::kCpu; }

bool IsAmong(std::string_view flag, std::span<const std::string_view> names) {
  return std::ranges::find(names, flag) != names.end();
}

[[noreturn]] void RefuseCard(std::string_view flag) {
  throw Error({.where = std::string(flag),
               .text = "expected without --provider cpu, which uses no card, but RAM (--ram)"});
}

// Flags of a run and of cards, as they were typed: the config's are for all models.
void CheckTyped(std::string_view flag, bool is_on_cpu) {
  if (IsAmong(flag, kFlagsOfSessions)) return;
  if (!IsAmong(flag, kFlagsOfCards)) {
    throw Error({.where = std::string(flag),
                 .text = "expected without --runtime onnxruntime, which runs the file as it is"});
  }
  if (is_on_cpu) RefuseCard(flag);
}

// Flags of sessions.
void CheckGiven(std::string_view flag, bool is_on_cpu) {
  if (is_on_cpu && IsAmong(flag, kFlagsOfCuda)) RefuseCard(flag);
  if (!is_on_cpu && flag == "--ram") {
    throw Error({.where = std::string(flag),
                 .text = "expected with a session on the CPU (--provider cpu)"});
  }
}

void CheckRuntimeFlags(const Options& options) {
  for (const TypedFlag& typed : options.typed) CheckTyped(typed.name, IsOnCpu(options));
  for (const std::string& flag : options.given) CheckGiven(flag, IsOnCpu(options));
  if (options.model.ends_with(".onnx")) return;
  throw Error({.file = options.model,
               .where = "--runtime onnxruntime",
               .text = "expected an ONNX file",
               .hint = "torch.onnx.export(model, inputs, \"model.onnx\")"});
}

// What both commands ask first.
void CheckRuntime(const Options& options) {
  CheckRuntimeFlags(options);
  CheckTextOrJson(options, "--runtime onnxruntime");
  CheckOutput(options, options.model, "the model");
  if (IsOnCpu(options) || !options.request.targets.empty()) return;
  throw Error({.where = "--runtime onnxruntime",
               .text = "expected a card, found none",
               .hint = "--gpu t4"});
}

std::vector<EstimateRequest> RequestsAt(const Options& options, int64_t batch) {
  std::vector<EstimateRequest> requests = Combinations(options.request, options.sweep);
  for (EstimateRequest& request : requests) request.binding.batch = batch;
  return requests;
}

RuntimeSearch SearchOn(const Target& target, const Options& options, const Graph& graph,
                       std::ostream& err) {
  Progress progress(err, std::chrono::seconds(1));
  std::map<int64_t, RuntimeRun> runs;
  const auto run = [&](int64_t batch) {
    progress.Show(fmt::format("max-batch: batch {} under ONNX Runtime", batch));
    runs[batch] = RunOnRuntime(options, graph, RequestsAt(options, batch), target, err);
    return runs[batch].target;
  };
  RuntimeSearch search = {.found = TryBatches(LimitsAsAsked(options, kMostServed), run)};
  search.largest = std::move(runs.at(search.found.told()));
  return search;
}

// --- On the CPU ---------------------------------------------------------------------------------

int ExitCodeOnHost(const HostRun& run, const Options& options) {
  return run.ram_bytes == 0 ? kExitDone : ExitCodeOf({run.target}, options);
}

int EstimateOnHost(const Options& options, std::ostream& out, std::ostream& err) {
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("estimate: running ONNX Runtime");
  const Graph graph = LoadModel(options.model);
  const HostRun run = RunOnHost(options, graph, Combinations(options.request, options.sweep),
                                /*is_for_search=*/false);
  progress.End();
  WriteTextOrJson(run, options, out);
  return ExitCodeOnHost(run, options);
}

int MaxBatchOnHost(const Options& options, std::ostream& out, std::ostream& err) {
  if (options.ram_bytes == 0) {
    throw Error(
        {.where = "--provider cpu", .text = "expected how much RAM there is (--ram), found none"});
  }
  const Graph graph = LoadModel(options.model);
  Progress progress(err, std::chrono::seconds(1));
  std::map<int64_t, HostRun> runs;
  const auto run = [&](int64_t batch) {
    progress.Show(fmt::format("max-batch: batch {} under ONNX Runtime", batch));
    runs[batch] = RunOnHost(options, graph, RequestsAt(options, batch), /*is_for_search=*/true);
    return runs[batch].target;
  };
  HostSearch search = {.found = TryBatches(LimitsAsAsked(options, kMostServed), run)};
  search.largest = std::move(runs.at(search.found.told()));
  progress.End();
  WriteTextOrJson(search, options, out);
  return ExitCodeOnHost(search.largest, options);
}

}  // namespace

int RunEstimateOnRuntime(const Options& options, std::ostream& out, std::ostream& err) {
  CheckRuntime(options);
  if (IsOnCpu(options)) return EstimateOnHost(options, out, err);
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
  WriteTextOrJson(runs, options, out);
  return ExitCodeOf(judged, options);
}

int RunMaxBatchOnRuntime(const Options& options, std::ostream& out, std::ostream& err) {
  CheckRuntime(options);
  if (IsOnCpu(options)) return MaxBatchOnHost(options, out, err);
  const Graph graph = LoadModel(options.model);
  std::vector<RuntimeSearch> searches;
  std::vector<JudgedTarget> judged;
  for (const Target& target : options.request.targets) {
    searches.push_back(SearchOn(target, options, graph, err));
    judged.push_back(searches.back().largest.target);
  }
  WriteTextOrJson(searches, options, out);
  return ExitCodeOf(judged, options);
}

}  // namespace onnxfit
