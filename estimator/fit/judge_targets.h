// From a prediction to verdicts.  Internal to the rooms fit/ and advise/.
#pragma once

#include <optional>
#include <vector>

#include "estimator/fit/doubts.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/study.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/loop.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// A prediction whose loop can be played for as many steps as a verdict takes.
struct LoopedPrediction {
  SharedPrediction prediction;
  Loop loop;
  int64_t unmodelled_bytes = 0;
  int64_t nccl_bytes = 0;

  PlayableRun playable() const;
};

// Predicts all steps of a verdict where a few do not repeat.  Throws Error as Predict does.
LoopedPrediction PredictLoop(const Study& study, const EstimateRequest& request);

// Judges request.targets by the worse of `first` and, where the file leaves something open,
// `worse`; cards whose kernels are not those of the one before get predictions of their own.
// REQUIRES: both are of `request`.
std::vector<JudgedTarget> JudgeTargets(const Study& study, const EstimateRequest& request,
                                       const SharedPrediction& first,
                                       const std::optional<ReadRun>& worse);

}  // namespace onnxfit
