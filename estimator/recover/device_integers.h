// Integers that PyTorch computes on the device, although they follow from shapes and
// constants.  Internal to the room recover/.
#pragma once

#include <vector>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/roles.h"

namespace onnxfit {

// By NodeId: whether a node whose results are known runs on the device all the same.  What
// leads from torch.arange (Range) or from a buffer of the module to the indices of an
// embedding, or to floats, does: position ids, T5's buckets of relative positions.  Sizes do not,
// nor do masks, which tracing alone computes (masks.h).  O(nodes).
std::vector<bool> FindDeviceIntegers(const BoundGraph& bound, const Roles& roles);

}  // namespace onnxfit
