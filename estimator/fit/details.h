// What only -v tells of a run.  Internal to the room fit/.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"

namespace onnxfit {

// What each step asks of the allocator; the first is step 1.  O(events × log).
std::vector<StepSummary> SummarizeSteps(const Prediction& prediction);

// How many nodes run as calls and on the host, and which calls work in place.
// REQUIRES: `prediction` has its holders.
std::vector<std::string> RunNotes(const Prediction& prediction);

}  // namespace onnxfit
