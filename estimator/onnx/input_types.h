// The element types that a file gives its inputs.
#pragma once

#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

struct Graph;

// By Graph::inputs; kUndefined of what is no tensor.  O(inputs).
std::vector<DType> InputTypes(const Graph& graph);

}  // namespace onnxfit
