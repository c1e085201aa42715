// Which cards run alike.  Internal to the room fit/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/fit/batch_programs.h"
#include "estimator/fit/target.h"

namespace onnxfit {

// Groups of targets, as indices, on which kernels ask for the same memory: at a small batch and
// at a large one the run's traces are equal, and nothing else was measured there.  In the order of
// their first members.  Two runs for each kind of kernels.
std::vector<std::vector<size_t>> GroupTargets(BatchPrograms& programs,
                                              const TrainingSettings& settings,
                                              std::span<const Target> targets);

}  // namespace onnxfit
