// Floats that the file would let one compute, but that training changes: an exponential of a
// parameter of one element.  Internal to the room recover/.
#pragma once

#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// By value: whether it is one of `parameters` (by value), or a float that one of them feeds.
// O(nodes).
std::vector<bool> FloatsFedBy(const Graph& graph, const Shapes& shapes,
                              const std::vector<bool>& parameters);

}  // namespace onnxfit
