// Tensors whose elements lie in files next to the model.
// Source: onnx/docs/ExternalData.md.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "estimator/onnx/loader.h"

namespace onnxfit {

// Reads what shapes may be computed from, integer and bool tensors of at most
// `options.keep_integer_bytes`, from the files next to `model_path` into the graph's
// initializers.  No other file is opened; paths that lead elsewhere never are.  What is
// missing is no error: `notes` say what was there and what was read.
void ReadSmallExternalTensors(onnx::GraphProto& graph, const std::string& model_path,
                              const LoadOptions& options, std::vector<std::string>& notes);

// `size` bytes of the tensor's contents from `offset` on, out of a file next to `model_path`; ""
// where they are not there.
std::string ReadExternalBytes(const onnx::TensorProto& tensor, const std::string& model_path,
                              int64_t offset, int64_t size);

}  // namespace onnxfit
