#include "estimator/fit/judge_targets.h"

#include <optional>
#include <utility>

#include "estimator/eager/cudnn_workspace.h"

namespace onnxfit {
namespace {

PlayableRun RunOf(const Prediction& prediction, const Loop& loop, int64_t unmodelled_bytes) {
  return {.trace = &prediction.trace,
          .loop = &loop,
          .bytes = BytesOf(prediction.trace),
          .conf = prediction.alloc_conf,
          .unmodelled_bytes = unmodelled_bytes,
          .is_inference = prediction.is_inference};
}

LoopedPrediction WithLoop(Prediction prediction, const DeviceProfile& device) {
  LoopedPrediction looped;
  looped.prediction = std::move(prediction);
  looped.loop = ReadLoop(looped.prediction.trace);
  looped.unmodelled_bytes = MostCudnnWorkspaceBytes(looped.prediction.program, device);
  return looped;
}

}  // namespace

PlayableRun LoopedPrediction::playable() const { return RunOf(prediction, loop, unmodelled_bytes); }

LoopedPrediction PredictLoop(const Graph& file, const EstimateRequest& request) {
  LoopedPrediction looped = WithLoop(Predict(file, request), request.settings.device);
  if (looped.loop.repeats()) return looped;
  EstimateRequest longer = request;
  longer.settings.steps = kVerdictSteps;
  return WithLoop(Predict(file, longer), longer.settings.device);
}

std::vector<JudgedTarget> JudgeTargets(const Graph& file, const EstimateRequest& request,
                                       const Prediction& first) {
  std::vector<JudgedTarget> judged;
  if (request.targets.empty()) return judged;
  EstimateRequest own = request;
  own.details = false;
  own.why.clear();
  const Loop loop = ReadLoop(first.trace);
  std::optional<LoopedPrediction> later;  // of own.settings.device, where `first` does not serve
  PlayableRun run =
      RunOf(first, loop, MostCudnnWorkspaceBytes(first.program, request.settings.device));
  bool serves = loop.repeats();
  for (const Target& target : request.targets) {
    if (!serves || !SameKernels(own.settings.device, target.device)) {
      own.settings.device = target.device;
      later = PredictLoop(file, own);
      run = later->playable();
      serves = true;
    }
    judged.push_back({.target = target, .judgement = Judge(run, target)});
  }
  return judged;
}

}  // namespace onnxfit
