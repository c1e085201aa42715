// Checks of single things in a model, with their error texts.
// Internal to the room onnx/; all errors are thrown without a file.
#pragma once

#include <onnx/onnx_pb.h>

#include <span>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// Dimensions of a tensor, as PyTorch's reductions (ATen/WrapDimUtilsMulti.h, dim_bitset_size) and
// NumPy 2 (NPY_MAXDIMS): each node costs as many numbers.
inline constexpr int64_t kMaxRank = 64;

// Throws Error where `model` has no graph, no nodes or no outputs.
void CheckIsComplete(const onnx::ModelProto& model);

// ONNX's own opset must be named, if used, and be one that is supported: from 7 on.
void CheckOpset(const onnx::ModelProto& model);

// The dimensions that the file states for a graph input are >= 0, and not above kMaxRank.
void CheckInput(const onnx::ValueInfoProto& input);

// The type of an initializer; Error where its element type is unknown, a dimension is
// negative, there are above kMaxRank of them, its size does not fit 63 bits, or its contents do not
// match it.
TensorType TypeOfInitializer(const onnx::TensorProto& tensor);
TensorType TypeOfInitializer(const onnx::SparseTensorProto& tensor);

// The error for a name that nothing makes; `names` are those that there are.
// `where` uses it as `what` ("input", "a sub-graph's input", "output").
Error DanglingName(std::string where, std::string_view what, std::string_view name,
                   std::span<const Value> values);

}  // namespace onnxfit
