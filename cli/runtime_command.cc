// `onnxfit estimate --runtime onnxruntime`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <ostream>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/runtime_trial.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/fit/predict.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {
namespace {

// What a session of the file has; the others are of a training step in PyTorch.
constexpr std::string_view kFlagsOfSessions[] = {
    "--batch",    "--dim",     "--shape",   "--mode",           "--gpu", "--memory", "--reserve",
    "--overhead", "--runtime", "--session", "--provider-option"};

void CheckRuntimeFlags(const Options& options) {
  for (const TypedFlag& typed : options.typed) {
    const bool is_known =
        std::ranges::find(kFlagsOfSessions, typed.name) != std::end(kFlagsOfSessions);
    if (is_known) continue;
    throw Error({.where = typed.name,
                 .text = "expected without --runtime onnxruntime, which runs the file as it is"});
  }
  if (!options.sweep.empty()) {
    throw Error(
        {.where = "--runtime", .text = "expected one batch and one size of each dimension"});
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

}  // namespace

int RunEstimateOnRuntime(const Options& options, std::ostream& out, std::ostream& err) {
  CheckRuntimeFlags(options);
  CheckRuntimeFormat(options);
  CheckOutput(options, options.model, "the model");
  std::vector<Target> targets = options.request.targets;
  if (targets.empty()) {
    throw Error({.where = "--runtime onnxruntime",
                 .text = "expected a card, found none",
                 .hint = "--gpu t4"});
  }
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("estimate: starting ONNX Runtime");
  const Graph graph = LoadModel(options.model);
  std::vector<RuntimeRun> runs;
  std::vector<JudgedTarget> judged;
  for (const Target& target : targets) {
    runs.push_back(RunOnRuntime(options, graph, target, err));
    judged.push_back(runs.back().target);
  }
  progress.End();
  const std::string report = options.format == Format::kJson
                                 ? ToJson(runs, {.version = ONNXFIT_VERSION})
                                 : ToText(runs, WithColor(options, out));
  WriteReport(report, options, out);
  return ExitCodeOf(judged, options);
}

}  // namespace onnxfit
