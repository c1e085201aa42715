// What a file leaves open, answered both ways.  Internal to the room fit/.
#pragma once

#include <optional>
#include <span>

#include "estimator/base/doubt.h"
#include "estimator/fit/estimate.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// The smallest and the largest of three: `guessed_bytes`, without flags, and where every doubt
// is answered so that tensors take less, and more.  (What is reserved is not always less then.)
// nullopt where there is no doubt or all are the same.  Two further runs of `file`.
std::optional<DeviceRange> FindRange(const Graph& file, const EstimateRequest& request,
                                     std::span<const Doubt> doubts, int64_t guessed_bytes);

// One sentence for people.
Warning RangeWarning(const DeviceRange& range);

}  // namespace onnxfit
