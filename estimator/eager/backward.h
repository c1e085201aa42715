// The formulas of one node: gradients of a call's inputs from those of its outputs.
#pragma once

#include <vector>

#include "estimator/eager/call_table.h"

namespace onnxfit {

// The gradients of the inputs of `node`, one reference each, kNoTensor where none is
// wanted, allocated in PyTorch's order, then validated as the engine does: what was
// broadcast is summed up, what has another dtype is cast.  `incoming` are the gradients
// of its outputs, kNoTensor where none arrived, or once a formula has let go of it.
// REQUIRES: `node` is no leaf.
std::vector<TensorId> Gradients(CallTable& calls, GradNodeId node, std::vector<TensorId>& incoming);

}  // namespace onnxfit
