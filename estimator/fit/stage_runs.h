// The stages of a pipeline, run one after the other.  Internal to the room fit/.
#pragma once

#include <functional>

#include "estimator/fit/predict.h"

namespace onnxfit {

// Whether `request` asks for a stage of a pipeline.
bool AsksForStage(const Program& program, const EstimateRequest& request);

// Runs a program by a request.
using RunStage = std::function<Prediction(const Program&, const EstimateRequest&)>;

// The stage that `request` names, else the one that reserves most on an endless card, the first of
// equals: each is run.  It says which that is, and where another one allocates more.  Throws Error
// as StageOf does.
Prediction RunStageOf(const Program& program, const EstimateRequest& request, const RunStage& run);

}  // namespace onnxfit
