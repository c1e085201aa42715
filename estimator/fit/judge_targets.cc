#include "estimator/fit/judge_targets.h"

#include <optional>
#include <utility>

#include "estimator/base/missing_bytes.h"
#include "estimator/fit/cudnn_remark.h"

namespace onnxfit {
namespace {

PlayableRun RunOf(const Prediction& prediction, const Loop& loop, int64_t unmodelled_bytes,
                  int64_t nccl_bytes) {
  return {.trace = &prediction.trace,
          .loop = &loop,
          .bytes = BytesOf(prediction.trace),
          .conf = prediction.alloc_conf,
          .unmodelled_bytes = unmodelled_bytes,
          .is_inference = prediction.is_inference,
          .nccl_bytes = nccl_bytes,
          .missing = MissingBytesOf({&prediction.warnings})};
}

int64_t NcclBytesOf(const EstimateRequest& request) {
  return MostNcclBytes(request.settings, request.overhead_bytes.has_value());
}

LoopedPrediction WithLoop(SharedPrediction prediction, const EstimateRequest& request) {
  LoopedPrediction looped;
  looped.prediction = std::move(prediction);
  looped.loop = ReadLoop(looped.prediction->trace);
  looped.unmodelled_bytes = OpenCudnnBytes(looped.prediction->program, request.settings);
  looped.nccl_bytes = NcclBytesOf(request);
  return looped;
}

// Verdicts on a run, card after card.
class CardJudge {
 public:
  // Both must outlive it.  `first` is of `request`.
  CardJudge(const Study& study, const EstimateRequest& request, const Prediction& first)
      : study_(study), own_(request), loop_(ReadLoop(first.trace)), serves_(loop_.repeats()) {
    own_.details = false;
    own_.why.clear();
    run_ =
        RunOf(first, loop_, OpenCudnnBytes(first.program, request.settings), NcclBytesOf(request));
  }

  // Predicts anew where kernels are not those of the card before.
  Judgement On(const Target& target) {
    if (!serves_ || !SameKernels(own_.settings.device, target.device)) {
      own_.settings.device = target.device;
      later_ = PredictLoop(study_, own_);
      run_ = later_->playable();
      serves_ = true;
    }
    return Judge(run_, target);
  }

 private:
  const Study& study_;
  EstimateRequest own_;
  const Loop loop_;                        // of the first prediction
  std::optional<LoopedPrediction> later_;  // of own_.settings.device, where that does not serve
  PlayableRun run_;
  bool serves_;  // run_ can be played for all steps
};

}  // namespace

PlayableRun LoopedPrediction::playable() const {
  return RunOf(*prediction, loop, unmodelled_bytes, nccl_bytes);
}

LoopedPrediction PredictLoop(const Study& study, const EstimateRequest& request) {
  LoopedPrediction looped = WithLoop(study.Predicted(request), request);
  if (looped.loop.repeats()) return looped;
  EstimateRequest longer = request;
  longer.settings.steps = kVerdictSteps;
  return WithLoop(study.Predicted(longer), longer);
}

std::vector<JudgedTarget> JudgeTargets(const Study& study, const EstimateRequest& request,
                                       const SharedPrediction& first,
                                       const std::optional<ReadRun>& worse) {
  std::vector<JudgedTarget> judged;
  if (request.targets.empty()) return judged;
  CardJudge guess(study, request, *first);
  std::optional<CardJudge> other;
  const bool differs = worse && worse->prediction != first;
  if (differs) other.emplace(study, worse->reading.request, *worse->prediction);
  for (const Target& target : request.targets) {
    Judgement judgement = guess.On(target);
    if (other) judgement = WorseOf(std::move(judgement), other->On(target), worse->reading.flags);
    judged.push_back({.target = target, .judgement = std::move(judgement)});
  }
  return judged;
}

}  // namespace onnxfit
