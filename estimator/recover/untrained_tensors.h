// Parameters that a library's class makes with requires_grad=False, which ONNX does not say.
// Internal to the room recover/.
#pragma once

#include <vector>

#include "estimator/program/module_tensors.h"
#include "estimator/recover/bound_graph.h"

namespace onnxfit {

// By parameter: whether a row of UntrainedParameters (libraries.h) names it.
// O(parameters × rows).
std::vector<bool> FindUntrained(const BoundGraph& bound,
                                const std::vector<ModuleTensor>& parameters);

}  // namespace onnxfit
