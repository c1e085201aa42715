// Masks that libraries build in an export, and leave out of a run where they hide nothing. Internal
// to the room recover/.
#pragma once

#include <vector>

#include "estimator/recover/bound_graph.h"

namespace onnxfit {

// What the model's own lines make and pass to a library's function that builds a mask: it is made
// whether or not there is a mask then.  O(nodes).
std::vector<ValueId> FindArgumentsOfMasks(const BoundGraph& bound);

}  // namespace onnxfit
