// Model-local functions: their calls become the nodes of their bodies.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace onnxfit {

// Inlines all functions of `model`, which has none afterwards; those for another opset
// than the model's stay calls (of unknown operators) and are told in `notes`.
// Throws Error (without a file) where functions call themselves, are defined twice, are
// called with too many inputs or outputs, or would expand to more than a million nodes.
void InlineFunctions(onnx::ModelProto& model, std::vector<std::string>& notes);

}  // namespace onnxfit
