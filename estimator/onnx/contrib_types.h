// Types of what operators make that ONNX Runtime's optimizer writes and ONNX has no schema for.
// Internal to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

// One node, all of whose tensors have known dimensions.
struct ContribCall {
  const onnx::NodeProto* node = nullptr;
  std::vector<std::optional<TensorType>> inputs;  // nullopt: left out

  bool has(size_t input) const { return input < inputs.size() && inputs[input].has_value(); }
  const TensorType& in(size_t input) const { return *inputs[input]; }
};

// One for each output; fewer where nothing is known of the further ones.
using ContribTypes = std::vector<TensorType>;

struct ContribRow {
  std::string_view op_type;
  size_t required = 1;  // inputs that it cannot do without
  // Empty where the inputs do not go together.
  ContribTypes (*types)(const ContribCall&) = nullptr;
};

// The row of an operator of com.microsoft, or of those that ONNX Runtime writes into ONNX's own
// domain (SimplifiedLayerNormalization); null for others.  O(rows).
const ContribRow* FindContrib(std::string_view domain, std::string_view op_type);

}  // namespace onnxfit
