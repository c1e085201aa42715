// Parameters that a library makes, or leaves, with requires_grad=False, which ONNX does not say.
// Internal to recovery.
#pragma once

#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/program/module_tensors.h"

namespace onnxfit {

// By parameter: whether a row of UntrainedParameters (libraries.h) names it; and, where some are
// those of adapters, as peft calls them ("fc.lora_A.default.weight"), whether it is none of these,
// nor a copy that is trained beside them ("modules_to_save").
// O(parameters × rows).
std::vector<bool> FindUntrained(const BoundGraph& bound,
                                const std::vector<ModuleTensor>& parameters);

}  // namespace onnxfit
