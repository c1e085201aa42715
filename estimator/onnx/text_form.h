// ONNX's text form, for tests and small models.
#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>

namespace onnxfit {

// A model "<ir_version: 8, opset_import: ["" : 17]> name (…) => (…) { … }", or a graph
// without the part in angle brackets, which then gets these two.
// Throws Error (without a file) with the line and column where it is wrong.
onnx::ModelProto ParseOnnxText(std::string_view text);

}  // namespace onnxfit
