// Where tensors stood in their module that an exporter has merged with equal ones.  Internal to
// program/.
#pragma once

#include <cstddef>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// Moves the initializers from `first` on, which are in the order of the module, to their places
// among those before, which are, too: each behind the one that was moved before it, beside those
// whose path shares most modules with its own, and there in front of the first that is used
// later.  The order of use alone would not do: transformers lists norms behind what they feed.
// O(moved × initializers).
void PlaceMerged(Graph& graph, size_t first);

}  // namespace onnxfit
