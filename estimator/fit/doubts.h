// What a file leaves open, answered both ways.  Internal to the room fit/.
#pragma once

#include <optional>
#include <span>

#include "estimator/base/doubt.h"
#include "estimator/fit/estimate.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// The estimates where every doubt is answered by less memory, and by more; nullopt where there
// is no doubt or both are the same.  Two further runs of `file`.
std::optional<DeviceRange> FindRange(const Graph& file, const EstimateRequest& request,
                                     std::span<const Doubt> doubts);

// One sentence for people.
Warning RangeWarning(const DeviceRange& range);

}  // namespace onnxfit
