// Which cards run alike.  Internal to the room fit/.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// Groups of targets, as indices, on which kernels ask for the same memory: at a small batch and
// at a large one the run's traces are equal.  In the order of their first members.  Two
// predictions, and as many runs as there are kinds of kernels.
std::vector<std::vector<size_t>> GroupTargets(const Graph& file, const EstimateRequest& request,
                                              std::span<const Target> targets);

}  // namespace onnxfit
