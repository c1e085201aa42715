// What the last turn of a loop over layers has and no output needs, so that TorchScript's exporter
// leaves it out.  Internal to recovery.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/parameters/roles.h"

namespace onnxfit {

// "residual, skip = layer(x); x = x + residual; skips = skips + skip": of a file with the tensors
// `names`, which must outlive the result, those of "layers.11.residual", where the layers before
// have such a child beside others of what it reads, and the last one has the others alone.
// O(tensors × (log + readers)).
std::vector<UnreadTensor> FindLastTurns(const BoundGraph& bound,
                                        const std::set<std::string_view>& names);

}  // namespace onnxfit
