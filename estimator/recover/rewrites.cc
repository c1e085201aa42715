#include "estimator/recover/rewrites.h"

#include <cmath>
#include <optional>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/recover/attention.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/chunks.h"
#include "estimator/recover/exported_calls.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/grouped_heads.h"
#include "estimator/recover/norms.h"
#include "estimator/recover/recurrent_calls.h"
#include "estimator/recover/token_positions.h"

namespace onnxfit {
namespace {

// x * gate(x), in either order.
std::optional<Rewritten> GatedBy(const BoundGraph& bound, NodeId mul, std::string_view gate,
                                 std::string_view aten) {
  const Node& node = bound.At(mul);
  if (node.inputs.size() != 2) return std::nullopt;
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const NodeId inner = bound.Inner(node.inputs[side], gate);
    const ValueId x = node.inputs[1 - side];
    if (inner == kNoNode || bound.At(inner).inputs[0] != x) continue;
    return Rewritten{aten, {x}, mul, {inner, mul}};
  }
  return std::nullopt;
}

std::optional<Rewritten> FindSilu(const BoundGraph& bound, NodeId mul) {
  return GatedBy(bound, mul, "Sigmoid", "silu");
}

std::optional<Rewritten> FindHardSwish(const BoundGraph& bound, NodeId mul) {
  auto found = GatedBy(bound, mul, "HardSigmoid", "hardswish");
  if (!found.has_value()) return found;
  const Node& gate = bound.At(found->nodes[0]);
  const bool is_hardswish = std::abs(FloatAttribute(gate, "alpha", 0.2) - 1.0 / 6) < 1e-4 &&
                            FloatAttribute(gate, "beta", 0.5) == 0.5;
  return is_hardswish ? found : std::nullopt;
}

// x * tanh (softplus (x)), as TorchScript's exporter writes torch.nn.Mish.
std::optional<Rewritten> FindMish(const BoundGraph& bound, NodeId mul) {
  const Node& node = bound.At(mul);
  const size_t side = bound.InnerSide(node, "Tanh");
  if (side > 1) return std::nullopt;
  const NodeId tanh = bound.Inner(node.inputs[side], "Tanh");
  const NodeId softplus = bound.Inner(bound.At(tanh).inputs[0], "Softplus");
  const ValueId x = node.inputs[1 - side];
  if (softplus == kNoNode || bound.At(softplus).inputs[0] != x) return std::nullopt;
  return Rewritten{"mish", {x}, mul, {softplus, tanh, mul}};
}

// a * sigmoid (b) of the halves a, b of x, as TorchScript's exporter writes torch.nn.GLU.
std::optional<Rewritten> FindGlu(const BoundGraph& bound, NodeId mul) {
  const Node& node = bound.At(mul);
  const NodeId gate = node.inputs.size() == 2 ? bound.Inner(node.inputs[1], "Sigmoid") : kNoNode;
  const NodeId split = gate == kNoNode ? kNoNode : bound.Inner(node.inputs[0], "Split");
  if (split == kNoNode || bound.At(split).outputs.size() != 2) return std::nullopt;
  const std::vector<ValueId>& halves = bound.At(split).outputs;
  const bool is_glu = halves[0] == node.inputs[0] && halves[1] == bound.At(gate).inputs[0] &&
                      bound.ReadersOf(halves[1]).size() == 1 &&
                      bound.DimsOf(halves[0]) == bound.DimsOf(halves[1]);
  if (!is_glu) return std::nullopt;
  return Rewritten{"glu", {bound.At(split).inputs[0]}, mul, {split, gate, mul}};
}

// bernoulli_(p).div_(p) of a new tensor, as exported: a comparison of random numbers with p,
// cast and divided.  Empty where `div` does not end it.
std::vector<NodeId> NoiseNodes(const BoundGraph& bound, NodeId div) {
  const ValueId sample = bound.At(div).inputs[0];
  const NodeId like = bound.Inner(sample, "CastLike");  // torch.export's way
  const NodeId cast = like == kNoNode ? bound.Inner(sample, "Cast") : like;
  if (cast == kNoNode) return {};
  const NodeId less = bound.Inner(bound.At(cast).inputs[0], "Less");
  if (less == kNoNode) return {};
  const NodeId random = bound.Inner(bound.At(less).inputs[0], "RandomUniformLike");
  if (random == kNoNode) return {};
  return {random, less, cast, div};
}

// x.mul_(noise), noise for every element: nn.Dropout(inplace=True), which torch.export
// writes in its parts.
std::optional<Rewritten> FindInPlaceDropout(const BoundGraph& bound, NodeId mul) {
  const Node& node = bound.At(mul);
  const NodeId div = node.inputs.size() == 2 ? bound.Inner(node.inputs[1], "Div") : kNoNode;
  std::vector<NodeId> nodes = div == kNoNode ? std::vector<NodeId>() : NoiseNodes(bound, div);
  if (nodes.empty() || bound.DimsOf(node.inputs[0]) != bound.DimsOf(node.inputs[1])) {
    return std::nullopt;
  }
  nodes.push_back(mul);
  return Rewritten{"dropout_", {node.inputs[0]}, mul, std::move(nodes), {}, true};
}

// torchvision's StochasticDepth: the noise that it multiplies with, a number a sample, in the
// type of what it is multiplied with, and the product.
std::optional<Rewritten> FindBernoulli(const BoundGraph& bound, NodeId div) {
  std::vector<NodeId> nodes = NoiseNodes(bound, div);
  const ValueId x = nodes.empty() ? kNoValue : bound.MultipliedBy(bound.At(div).outputs[0]);
  if (x == kNoValue) return std::nullopt;
  return Rewritten{"bernoulli", {x}, div, std::move(nodes), {}, true};
}

std::optional<Rewritten> FindNoisy(const BoundGraph& bound, NodeId mul) {
  const Node& node = bound.At(mul);
  if (node.inputs.size() != 2) return std::nullopt;
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const NodeId div = bound.Inner(node.inputs[side], "Div");
    if (div == kNoNode || NoiseNodes(bound, div).empty()) continue;
    return Rewritten{"mul", {node.inputs[1 - side], node.inputs[side]}, mul, {mul}, {}, true};
  }
  return std::nullopt;
}

// torch.nn.GroupNorm: an instance norm over groups, then weight and bias, [C, 1, 1].
std::optional<Rewritten> FindGroupNorm(const BoundGraph& bound, NodeId add) {
  const auto inner = [&](NodeId node, std::string_view op) {
    return node == kNoNode ? kNoNode : bound.Inner(bound.At(node).inputs[0], op);
  };
  const NodeId mul = inner(add, "Mul");
  const NodeId ungroup = inner(mul, "Reshape");
  const NodeId norm = inner(ungroup, "InstanceNormalization");
  const NodeId group = inner(norm, "Reshape");
  if (group == kNoNode || bound.At(norm).inputs.size() != 3) return std::nullopt;
  const Dims groups = bound.DimsOf(bound.At(norm).inputs[1]);  // [G]
  return Rewritten{"group_norm",
                   {bound.At(group).inputs[0], bound.At(mul).inputs[1], bound.At(add).inputs[1]},
                   add,
                   {group, norm, ungroup, mul, add},
                   groups};
}

// torch.nn.Linear on more than two dimensions: x · w + b.
std::optional<Rewritten> FindLinear(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.At(add);
  const size_t side = bound.InnerSide(node, "MatMul");
  if (side > 1 || !bound.IsStored(node.inputs[1 - side], 1)) return std::nullopt;
  const NodeId product = bound.Inner(node.inputs[side], "MatMul");
  const std::vector<ValueId>& factors = bound.At(product).inputs;
  Rewritten linear = {
      "linear", {factors[0], factors[1], node.inputs[1 - side]}, add, {product, add}};
  const NodeId transpose = bound.Inner(factors[1], "Transpose");
  if (transpose != kNoNode) {
    linear.inputs[1] = bound.At(transpose).inputs[0];
    linear.nodes.insert(linear.nodes.begin(), transpose);
  }
  if (!bound.IsStored(linear.inputs[1], 2)) return std::nullopt;
  return linear;
}

// The same without a bias; the weight's transpose may have been computed by the exporter.
std::optional<Rewritten> FindProduct(const BoundGraph& bound, NodeId product) {
  const std::vector<ValueId>& factors = bound.At(product).inputs;
  if (bound.IsStored(factors[1], 2) && IsComputedName(bound.NameOf(factors[1]))) {
    return Rewritten{"linear", {factors[0], factors[1]}, product, {product}};
  }
  const NodeId transpose = bound.Inner(factors[1], "Transpose");
  if (transpose == kNoNode) return std::nullopt;
  const ValueId weight = bound.At(transpose).inputs[0];
  const bool is_weight = bound.IsStored(weight, 2) &&
                         IntsAttribute(bound.At(transpose), "perm") == std::vector<int64_t>{1, 0};
  if (!is_weight) return std::nullopt;
  return Rewritten{"linear", {factors[0], weight}, product, {transpose, product}};
}

// torch.nn.GELU: x * (erf(x / √2) + 1) * 0.5, as TorchScript's exporter writes it.
std::optional<Rewritten> FindGelu(const BoundGraph& bound, NodeId halve) {
  const Node& last = bound.At(halve);
  const size_t side = bound.InnerSide(last, "Mul");
  if (side > 1 || bound.NumberOf(last.inputs[1 - side]) != 0.5) return std::nullopt;
  const NodeId gate = bound.Inner(last.inputs[side], "Mul");
  const size_t add_side = bound.InnerSide(bound.At(gate), "Add");
  if (add_side > 1) return std::nullopt;
  const ValueId x = bound.At(gate).inputs[1 - add_side];
  const NodeId add = bound.Inner(bound.At(gate).inputs[add_side], "Add");
  const size_t erf_side = bound.InnerSide(bound.At(add), "Erf");
  if (erf_side > 1 || bound.NumberOf(bound.At(add).inputs[1 - erf_side]) != 1) {
    return std::nullopt;
  }
  const NodeId erf = bound.Inner(bound.At(add).inputs[erf_side], "Erf");
  const NodeId divide = bound.Inner(bound.At(erf).inputs[0], "Div");
  if (divide == kNoNode || bound.At(divide).inputs[0] != x) return std::nullopt;
  return Rewritten{"gelu", {x}, halve, {divide, erf, add, gate, halve}};
}

// The operand of a commutative node beside the one that is known to be `number`, else
// kNoValue.
ValueId BesideNumber(const BoundGraph& bound, NodeId node, double number) {
  if (node == kNoNode) return kNoValue;
  const std::vector<ValueId>& inputs = bound.At(node).inputs;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (std::abs(bound.NumberOf(inputs[side]) - number) < 1e-5) return inputs[1 - side];
  }
  return kNoValue;
}

// x · (x · x), which Pow would be in code that is written by hand.
std::vector<NodeId> CubeNodes(const BoundGraph& bound, ValueId value, ValueId x) {
  const NodeId cube = bound.Inner(value, "Mul");
  const size_t side = cube == kNoNode ? 2 : bound.InnerSide(bound.At(cube), "Mul");
  if (side > 1 || bound.At(cube).inputs[1 - side] != x) return {};
  const NodeId square = bound.Inner(bound.At(cube).inputs[side], "Mul");
  const bool squares = bound.At(square).inputs == std::vector<ValueId>{x, x};
  return squares ? std::vector<NodeId>{square, cube} : std::vector<NodeId>();
}

// torch.nn.GELU(approximate='tanh'): 0.5 · (x · (1 + tanh (√(2/π) · (x + 0.044715 · x³)))), as
// TorchScript's exporter writes it.
std::optional<Rewritten> FindGeluTanh(const BoundGraph& bound, NodeId last) {
  const NodeId gate = bound.Inner(BesideNumber(bound, last, 0.5), "Mul");
  const size_t side = gate == kNoNode ? 2 : bound.InnerSide(bound.At(gate), "Add");
  if (side > 1) return std::nullopt;
  const ValueId x = bound.At(gate).inputs[1 - side];
  const NodeId add = bound.Inner(bound.At(gate).inputs[side], "Add");
  const NodeId tanh = bound.Inner(BesideNumber(bound, add, 1), "Tanh");
  const NodeId scale = tanh == kNoNode ? kNoNode : bound.Inner(bound.At(tanh).inputs[0], "Mul");
  const NodeId sum = bound.Inner(BesideNumber(bound, scale, 0.7978846), "Add");
  const size_t cubic = sum == kNoNode ? 2 : bound.InnerSide(bound.At(sum), "Mul");
  if (cubic > 1 || bound.At(sum).inputs[1 - cubic] != x) return std::nullopt;
  const NodeId kappa = bound.Inner(bound.At(sum).inputs[cubic], "Mul");
  std::vector<NodeId> nodes = CubeNodes(bound, BesideNumber(bound, kappa, 0.044715), x);
  if (nodes.empty()) return std::nullopt;
  nodes.insert(nodes.end(), {kappa, sum, scale, tanh, add, gate, last});
  return Rewritten{"gelu", {x}, last, std::move(nodes)};
}

struct RewriteRow {
  std::string_view last;  // operator of the last node
  std::optional<Rewritten> (*find)(const BoundGraph&, NodeId last);
};

// Known by the source line: before what the exporter says of parts of them.
constexpr RewriteRow kByLine[] = {
    {"Mul", FindFusedRmsNorm},
    {"Mul", FindPlainRmsNorm},
};

constexpr RewriteRow kRewrites[] = {
    {"MatMul", FindAttention},          //
    {"ConstantOfShape", FindZeroBias},  //
    {"Expand", FindZeroBias},           // as torch.export writes torch.zeros
    {"Squeeze", FindPackedProjection},  //
    {"Not", FindNotEqual},
    {"Mul", FindTokenPositions},
    {"Slice", FindChunk},         //
    {"Mul", FindSilu},            //
    {"Mul", FindHardSwish},       //
    {"Mul", FindMish},            //
    {"Mul", FindGlu},             //
    {"Mul", FindInPlaceDropout},  //
    {"Div", FindBernoulli},       //
    {"Mul", FindNoisy},           //
    {"Mul", FindGeluTanh},        //
    {"Mul", FindRmsNorm},         //
    {"Div", FindRsqrt},           //
    {"Reciprocal", FindRsqrt},    //
    {"Add", FindLayerNorm},       //
    {"Mul", FindGelu},            //
    {"Add", FindLinear},          //
    {"MatMul", FindProduct},      //
    {"Add", FindGroupNorm},
};

bool AnyTaken(const Rewritten& found, const std::vector<bool>& taken) {
  for (const NodeId node : found.nodes) {
    if (taken[Index(node)]) return true;
  }
  return false;
}

}  // namespace

namespace {

class Search {
 public:
  Search(const Graph& graph, const BoundGraph& bound)
      : graph_(graph), bound_(bound), taken_(graph.nodes.size()) {}

  void Take(Rewritten found) {
    if (AnyTaken(found, taken_)) return;
    for (const NodeId node : found.nodes) taken_[Index(node)] = true;
    rewrites_.push_back(std::move(found));
  }

  void TakeAll(std::span<const RewriteRow> rows) {
    for (const RewriteRow& row : rows) {
      for (size_t i = 0; i < graph_.nodes.size(); ++i) {
        if (graph_.nodes[i].op_type != row.last) continue;
        auto found = row.find(bound_, static_cast<NodeId>(i));
        if (found.has_value()) Take(std::move(*found));
      }
    }
  }

  std::vector<Rewritten> Rewrites() && { return std::move(rewrites_); }

 private:
  const Graph& graph_;
  const BoundGraph& bound_;
  std::vector<bool> taken_;  // by node
  std::vector<Rewritten> rewrites_;
};

}  // namespace

std::vector<Rewritten> FindRewrites(const BoundGraph& bound) {
  Search search(bound.graph(), bound);
  search.TakeAll(kByLine);
  for (Rewritten& call : FindRecurrentCalls(bound)) search.Take(std::move(call));
  for (Rewritten& call : FindExportedCalls(bound)) search.Take(std::move(call));
  search.TakeAll(kRewrites);
  std::vector<Rewritten> rewrites = std::move(search).Rewrites();
  TakeBackRepeatedHeads(bound, rewrites);
  return rewrites;
}

}  // namespace onnxfit
