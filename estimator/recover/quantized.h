// Operators of quantized models, whose weights are integers.
#pragma once

#include <optional>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// Whether `node` reads or makes quantized numbers: its stored operands are buffers.
bool IsQuantizing(const Node& node);

// The first node that reads a stored matrix of integers as its weight: autograd has no gradient
// for it.  O(nodes + initializers).
std::optional<NodeId> FindQuantizedWeight(const Graph& graph);

}  // namespace onnxfit
