// From a file to a Graph.  Weights are not read: a 2 GB file costs milliseconds and
// little memory, since the map of the file is walked over and big tensors are skipped.
#pragma once

#include <string>
#include <string_view>

#include "estimator/onnx/graph.h"

namespace onnxfit {

struct LoadOptions {
  // Contents of tensors up to this size are kept whatever their type (shapes and
  // scalars are computed from them); of integer and bool tensors up to the second.
  int64_t keep_bytes = 1024;
  int64_t keep_integer_bytes = 1 << 20;
};

// Reads `path`: ONNX protobuf, or ONNX text where the name ends in ".onnxtxt"; "-" is
// standard input.  Model-local functions are inlined.  External data is opened for
// small integer tensors and a few elements of heads (ReadDiagonals in tensor_contents.h) alone, and
// may be missing. Throws Error for anything that is not a usable model: see tests/loader_test.cc
// for the list with its texts.  O(bytes outside of weights).
Graph LoadGraph(const std::string& path, const LoadOptions& options = {});

// The same for the bytes of a file that was at `path` (external data is looked for beside it), and
// that messages and reports call `name`.
Graph LoadGraphFrom(std::string_view bytes, const std::string& path, const std::string& name,
                    const LoadOptions& options = {});

// The same for ONNX's text form (OnnxParser): a model, as in models/*.onnxtxt, or, for
// tests, a bare graph "name (float[N, 4] x) => (float[N, 2] y) { ... }", which gets
// opset 17.
Graph ParseGraph(std::string_view text, std::string path = "<text>");

// Throws Error (without a file) where `first`, the first bytes of a file, belong to
// something that is well known and no ONNX model: it says what, and what to do.
void RefuseOtherFormats(std::string_view first);

}  // namespace onnxfit
