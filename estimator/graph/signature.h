// How many inputs and outputs a node may have.  Internal to the room graph/.
#pragma once

#include <cstdint>
#include <string>

#include "estimator/graph/graph.h"

namespace onnxfit {

// "" where `node` has as many inputs and outputs as its operator takes, and none is left out that
// it cannot do without; else what was expected and found.  Everything behind the loader rests on
// that: a node whose op_type is "MatMul" has two inputs.  Of operators that ONNX does not know
// nothing is checked.  `opset` is that of ONNX's own domain.
std::string WrongSignature(const Node& node, int64_t opset);

}  // namespace onnxfit
