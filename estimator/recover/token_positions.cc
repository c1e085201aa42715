#include "estimator/recover/token_positions.h"

namespace onnxfit {

std::optional<Rewritten> FindNotEqual(const BoundGraph& bound, NodeId last) {
  const NodeId equal = bound.Inner(bound.At(last).inputs[0], "Equal");
  if (equal == kNoNode) return std::nullopt;
  return Rewritten{"ne", bound.At(equal).inputs, last, {equal, last}};
}

std::optional<Rewritten> FindTokenPositions(const BoundGraph& bound, NodeId last) {
  const Node& product = bound.At(last);
  const size_t side = bound.InnerSide(product, "CumSum");
  if (side > 1) return std::nullopt;
  const NodeId sum = bound.Inner(product.inputs[side], "CumSum");
  const ValueId mask = bound.At(sum).inputs[0];
  const TensorType& type = bound.TypeOf(mask);
  if (product.inputs[1 - side] != mask || type.dtype != DType::kInt32) return std::nullopt;
  Rewritten call = {"mul", {mask, mask}, last, {sum, last}};
  call.before.push_back({"cumsum", {{.value = mask}}, {DType::kInt64, type.dims}});
  call.before.push_back({"to", {{.hidden = 0}}, type});
  call.before.push_back({"add.Scalar", {{.hidden = 1}}, type, {}, 0});
  return call;
}

}  // namespace onnxfit
