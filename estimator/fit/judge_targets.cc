#include "estimator/fit/judge_targets.h"

#include <optional>
#include <utility>

#include "estimator/eager/cudnn_workspace.h"

namespace onnxfit {
namespace {

LoopedPrediction WithLoop(Prediction prediction) {
  LoopedPrediction looped;
  looped.prediction = std::move(prediction);
  looped.loop = ReadLoop(looped.prediction.trace);
  looped.unmodelled_bytes = MostCudnnWorkspaceBytes(looped.prediction.program);
  return looped;
}

}  // namespace

PlayableRun LoopedPrediction::playable() const {
  return {.trace = &prediction.trace,
          .loop = &loop,
          .bytes = BytesOf(prediction.trace),
          .conf = prediction.alloc_conf,
          .unmodelled_bytes = unmodelled_bytes,
          .is_inference = prediction.is_inference};
}

LoopedPrediction PredictLoop(const Graph& file, const EstimateRequest& request) {
  LoopedPrediction looped = WithLoop(Predict(file, request));
  if (looped.loop.repeats()) return looped;
  EstimateRequest longer = request;
  longer.settings.steps = kVerdictSteps;
  return WithLoop(Predict(file, longer));
}

std::vector<JudgedTarget> JudgeTargets(const Graph& file, const EstimateRequest& request) {
  std::vector<JudgedTarget> judged;
  EstimateRequest own = request;
  own.details = false;
  own.why.clear();
  std::optional<LoopedPrediction> run;
  for (const Target& target : request.targets) {
    if (!run || !SameKernels(own.settings.device, target.device)) {
      own.settings.device = target.device;
      run = PredictLoop(file, own);
    }
    judged.push_back({.target = target, .judgement = Judge(run->playable(), target)});
  }
  return judged;
}

}  // namespace onnxfit
