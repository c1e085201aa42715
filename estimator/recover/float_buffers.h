// Buffers of floats, which files without metadata do not tell from parameters.  Internal to
// the room recover/.
#pragma once

#include <unordered_set>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// Initializers that are never trained: what is only compared with something (a triangle of
// ones, tril == 0), and what libraries and tutorials call by names of buffers.  O(nodes).
std::unordered_set<ValueId> FindFloatBuffers(const Graph& graph);

}  // namespace onnxfit
