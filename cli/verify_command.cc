#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "benchmarks/cuda/open_gpu.h"
#include "cli/asked_of_file.h"
#include "cli/calibration_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "estimator/base/device.h"
#include "estimator/base/error.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verify.h"
#include "estimator/report/verify.h"

namespace onnxfit {
namespace {

std::unique_ptr<Gpu> Open(const DetectedGpu& gpu, const EstimateRequest& request) {
  const bool grows = request.alloc_conf.conf.expandable_segments;
  return OpenGpu(gpu.index, grows ? SegmentMemory::kPages : SegmentMemory::kWhole);
}

// The card's kernels, what is known of its libraries, its context as answers without it take it.
EstimateRequest RequestFor(const Options& options, const DetectedGpu& gpu) {
  EstimateRequest request = options.request;
  const std::vector<SharedCalibration> calibrations = CalibrationsFor(options);
  const Target target = MakeTarget(
      {.detected = &gpu, .overhead_bytes = request.overhead_bytes, .calibrations = calibrations});
  request.settings.device = target.device;
  AskCudnn(options, request.settings.device);
  return request;
}

// Ctrl-C is a question from the first phase on; before, nothing is held and it ends the process.
ReplayWatch WatchOf(Progress& progress, std::optional<Interrupt>& interrupt, int steps) {
  return {.begins =
              [&progress, &interrupt, steps](int32_t step, Phase phase) {
                if (!interrupt) interrupt.emplace();
                progress.Show(step == 0
                                  ? "setup"
                                  : fmt::format("step {} of {}, {}", step, steps, ToString(phase)));
              },
          .is_stopped = Interrupt::IsAsked};
}

// Of a Verification or a VerifiedMaxBatch.
template <typename Answer>
std::string ProofReport(const Answer& answer, const Options& options, const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  switch (options.format) {
    case Format::kText:
      return ToText(answer, text);
    case Format::kJson:
      return ToJson(answer, {.version = ONNXFIT_VERSION, .rows = text.rows});
    case Format::kMarkdown:
      return ToMarkdown(answer, text);
    case Format::kCsv:
      return ToCsv(answer);
  }
  return "";
}

int ExitCodeOf(bool was_stopped, bool holds, const Options& options) {
  if (was_stopped) return kExitStopped;
  return holds || options.exit_zero ? kExitDone : kExitTargetFails;
}

// `work` on the opened card, followed and stopped as `options` and Ctrl-C say.
template <typename Work>
auto CarryOut(const DetectedGpu& gpu, const EstimateRequest& request, const Options& options,
              std::ostream& err, const Work& work) {
  std::optional<Interrupt> interrupt;
  const std::unique_ptr<Gpu> card = Open(gpu, request);
  Progress progress(err);
  return work(*card, WatchOf(progress, interrupt, options.verify.limits.steps));
}

int RunProof(const Graph& graph, const EstimateRequest& request, const DetectedGpu& gpu,
             const Options& options, std::ostream& out, std::ostream& err) {
  const Verification answer =
      CarryOut(gpu, request, options, err, [&](Gpu& card, const ReplayWatch& watch) {
        return Verify(graph, request, gpu, card, options.verify.limits, watch);
      });
  WriteReport(ProofReport(answer, options, out), options, out);
  return ExitCodeOf(answer.proof == Proof::kStopped, answer.proof == Proof::kPass, options);
}

int RunSearch(const Graph& graph, const EstimateRequest& request, const DetectedGpu& gpu,
              const Options& options, std::ostream& out, std::ostream& err) {
  const VerifiedMaxBatch answer =
      CarryOut(gpu, request, options, err, [&](Gpu& card, const ReplayWatch& watch) {
        return FindMaxBatchOn(graph, request, gpu, card, options.verify.limits.steps, watch);
      });
  WriteReport(ProofReport(answer, options, out), options, out);
  return ExitCodeOf(answer.was_stopped, answer.batch > 0 && answer.wrong_bytes == 0, options);
}

}  // namespace

int RunVerify(const Options& given, std::ostream& out, std::ostream& err) {
  CheckOutput(given, given.model, "the model");
  CheckSave(given);
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  const DetectedGpu gpu = UsableGpu(FindGpus(options.verify.device));
  const EstimateRequest request = RequestFor(options, gpu);
  const int code = options.verify.wants_max_batch
                       ? RunSearch(graph, request, gpu, options, out, err)
                       : RunProof(graph, request, gpu, options, out, err);
  const bool saves = options.verify.saves && code != kExitStopped;
  if (saves) MeasureAndSave(graph, request, gpu, options, err);
  return code;
}

}  // namespace onnxfit
