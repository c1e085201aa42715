// x.var(dim) and x.std(dim), as TorchScript's exporter writes them.
#include <algorithm>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

// The number of elements of a reduction is known, being a size: n / (n - 1) corrects a mean.
bool IsSize(const BoundGraph& bound, ValueId value) {
  const NodeId cast = bound.Maker(value, "Cast");
  return cast != kNoNode && bound.IsNumber(value) &&
         !IsFloat(bound.TypeOf(bound.At(cast).inputs[0]).dtype);
}

// mean * n / (n - 1); what it corrects, else `value`.
ValueId Uncorrected(const BoundGraph& bound, ValueId value, std::vector<NodeId>& nodes) {
  const NodeId div = bound.Maker(value, "Div");
  if (div == kNoNode) return value;
  const NodeId mul = bound.Inner(bound.At(div).inputs[0], "Mul");
  const NodeId less = bound.Maker(bound.At(div).inputs[1], "Sub");
  if (mul == kNoNode || less == kNoNode) return value;
  const ValueId count = bound.At(mul).inputs[1];
  if (!IsSize(bound, count) || bound.At(less).inputs[0] != count) return value;
  nodes.insert(nodes.end(), {div, mul});
  return bound.At(mul).inputs[0];
}

// x - mean (x), which a product alone reads, as both of its factors.
NodeId Centred(const BoundGraph& bound, NodeId square) {
  const std::vector<ValueId>& factors = bound.At(square).inputs;
  if (factors[0] != factors[1]) return kNoNode;
  const NodeId sub = bound.Maker(factors[0], "Sub");
  return sub == kNoNode || bound.AllReadersOf(factors[0]).size() != 2 ? kNoNode : sub;
}

// Whether what else reads `mean` than `sub` stands behind `last`: x.var_mean () has two results.
bool IsReadBehind(const BoundGraph& bound, ValueId mean, NodeId sub, NodeId last) {
  return std::ranges::all_of(bound.AllReadersOf(mean),
                             [&](NodeId reader) { return reader == sub || reader > last; });
}

}  // namespace

std::optional<Rewritten> FindVariance(const BoundGraph& bound, NodeId last) {
  const Node& end = bound.At(last);
  if (!IsNamedByTorchScript(end)) return std::nullopt;
  std::vector<NodeId> nodes;
  const bool is_root = end.op_type == "Sqrt";
  const ValueId variance = is_root ? end.inputs[0] : end.outputs[0];
  if (is_root && bound.ReadersOf(variance).size() != 1) return std::nullopt;
  if (is_root) nodes.push_back(last);
  const ValueId mean = Uncorrected(bound, variance, nodes);
  const bool is_corrected = mean != variance;
  const NodeId outer =
      is_corrected ? bound.Inner(mean, "ReduceMean") : bound.Maker(mean, "ReduceMean");
  const NodeId square = outer == kNoNode ? kNoNode : bound.Inner(bound.At(outer).inputs[0], "Mul");
  const NodeId sub = square == kNoNode ? kNoNode : Centred(bound, square);
  if (sub == kNoNode) return std::nullopt;
  const ValueId x = bound.At(sub).inputs[0];
  const NodeId inner = bound.Maker(bound.At(sub).inputs[1], "ReduceMean");
  if (inner == kNoNode || bound.At(inner).inputs[0] != x) return std::nullopt;
  nodes.insert(nodes.end(), {outer, square, sub, inner});
  Rewritten call = {is_root ? "std" : "var", {x}, last, {nodes.rbegin(), nodes.rend()}};
  const ValueId inner_mean = bound.At(inner).outputs[0];
  if (bound.Inner(inner_mean, "ReduceMean") != kNoNode) return call;
  if (!IsReadBehind(bound, inner_mean, sub, last)) return std::nullopt;
  call.aten = is_root ? "std_mean" : "var_mean";
  call.results = {end.outputs[0], inner_mean};
  return call;
}

}  // namespace onnxfit
