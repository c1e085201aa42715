// Layers and activations of torch.nn, which exporters write in their parts.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/module_names.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

// --- Activations ----------------------------------------------------------------------------

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

// --- Norms ----------------------------------------------------------------------------------

ValueId FirstInput(const BoundGraph& bound, NodeId node) {
  return node == kNoNode ? kNoValue : bound.At(node).inputs[0];
}

// The Sqrt under 1 / √x or Reciprocal (√x).
NodeId SqrtUnder(const BoundGraph& bound, NodeId last) {
  const Node& node = bound.At(last);
  if (node.op_type == "Reciprocal") return bound.Inner(node.inputs[0], "Sqrt");
  const bool is_one = node.op_type == "Div" && bound.NumberOf(node.inputs[0]) == 1;
  return is_one ? bound.Inner(node.inputs[1], "Sqrt") : kNoNode;
}

// The operand of an Add that is not its small number, kNoValue where there is none.
ValueId WithoutEpsilon(const BoundGraph& bound, NodeId add) {
  if (add == kNoNode) return kNoValue;
  const std::vector<ValueId>& inputs = bound.At(add).inputs;
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const double number = bound.NumberOf(inputs[side]);
    if (number > 0 && number < 0.1) return inputs[1 - side];
  }
  return kNoValue;
}

// What a Pow squares.
ValueId Squared(const BoundGraph& bound, NodeId pow) {
  if (pow == kNoNode || bound.NumberOf(bound.At(pow).inputs[1]) != 2) return kNoValue;
  return bound.At(pow).inputs[0];
}

// From the inverse root back to what is squared.
struct InverseRoot {
  std::vector<NodeId> nodes;  // Pow, ReduceMean, Add, Sqrt, and 1 / √
  ValueId squared = kNoValue;
};

std::optional<InverseRoot> FindInverseRoot(const BoundGraph& bound, ValueId value) {
  NodeId inverse = bound.Inner(value, "Div");
  if (inverse == kNoNode) inverse = bound.Inner(value, "Reciprocal");
  const NodeId sqrt = inverse == kNoNode ? kNoNode : SqrtUnder(bound, inverse);
  const NodeId add = bound.Inner(FirstInput(bound, sqrt), "Add");
  const NodeId mean = bound.Inner(WithoutEpsilon(bound, add), "ReduceMean");
  const NodeId pow = bound.Inner(FirstInput(bound, mean), "Pow");
  const ValueId squared = Squared(bound, pow);
  if (squared == kNoValue) return std::nullopt;
  return InverseRoot{{pow, mean, add, sqrt, inverse}, squared};
}

const TensorType& ResultOf(const BoundGraph& bound, NodeId node) {
  return bound.TypeOf(bound.At(node).outputs[0]);
}

// A cast that does nothing in the exported model.
NodeId NoopCast(const BoundGraph& bound, ValueId value) {
  const NodeId cast = bound.Maker(value, "Cast");
  const bool is_noop =
      cast != kNoNode && bound.TypeOf(bound.At(cast).inputs[0]) == bound.TypeOf(value);
  return is_noop ? cast : kNoNode;
}

// The calls of the norm up to its product with the weight.
class RmsNormCalls {
 public:
  RmsNormCalls(const BoundGraph& bound, ValueId x) : bound_(bound), x_{.value = x} {}

  // Casts back to the type of x, which autocast may have made, or else to that of the weight, the
  // model's precision: all that is before the last call.
  std::vector<HiddenCall> Make(const InverseRoot& root, NodeId product, bool casts_back) {
    const TensorType type = ResultOf(bound_, product);
    const HiddenCall::Operand cast = Add("to", {x_}, type, /*as_written=*/true);
    HiddenCall::Operand made = cast;  // in fp32 from here on
    for (size_t i = 0; i < root.nodes.size(); ++i) {
      constexpr std::string_view kCalls[] = {"pow.Tensor_Scalar", "mean", "add.Scalar", "",
                                             "rsqrt"};
      if (!kCalls[i].empty()) made = Add(kCalls[i], {made}, ResultOf(bound_, root.nodes[i]), true);
    }
    made = Add("mul", {casts_back ? cast : x_, made}, type, true);
    if (casts_back) {
      Add("type_as", {made, x_}, type);
    } else {
      Add("to", {made}, type);
    }
    return std::move(calls_);
  }

 private:
  HiddenCall::Operand Add(std::string_view aten, std::vector<HiddenCall::Operand> inputs,
                          const TensorType& type, bool as_written = false) {
    calls_.push_back(
        {.aten = aten, .inputs = std::move(inputs), .type = type, .as_written = as_written});
    return {.hidden = static_cast<int>(calls_.size()) - 1};
  }

  const BoundGraph& bound_;
  HiddenCall::Operand x_;
  std::vector<HiddenCall> calls_;
};

}  // namespace

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

// Whether torch.export says that the code spells a product, "x @ self.weight.T + b": of a
// transposed weight, which autocast casts anew for each.
bool IsSpelledProduct(const BoundGraph& bound, NodeId product) {
  return bound.metadata().TargetOf(product) == "aten.matmul.default";
}

// "x @ table.weight.T + self.bias" to TorchScript's exporter, which writes the bias first of a
// linear layer (linear in torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py, pytorch
// v2.11.0); so older ones do not, whose weight and bias are of one module.
bool IsSpelledSum(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.At(add);
  if (node.op_type != "Add" || !IsNamedByTorchScript(node)) return false;
  const NodeId product = bound.Inner(node.inputs[0], "MatMul");
  const NodeId transpose =
      product == kNoNode ? kNoNode : bound.Inner(bound.At(product).inputs[1], "Transpose");
  if (transpose == kNoNode || !bound.IsStored(node.inputs[1], 1)) return false;
  const std::string_view weight = bound.NameOf(bound.At(transpose).inputs[0]);
  return ParentOf(weight) != ParentOf(bound.NameOf(node.inputs[1]));
}

// torch.nn.Linear on more than two dimensions: x · w + b.
std::optional<Rewritten> FindLinear(const BoundGraph& bound, NodeId add) {
  const Node& node = bound.At(add);
  const size_t side = bound.InnerSide(node, "MatMul");
  if (side > 1 || !bound.IsStored(node.inputs[1 - side], 1)) return std::nullopt;
  const NodeId product = bound.Inner(node.inputs[side], "MatMul");
  if (IsSpelledProduct(bound, product) || IsSpelledSum(bound, add)) return std::nullopt;
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

// A layer of a library's own, whose forward is "x @ self.weight.T", in a file without lines.
bool IsProductOf(const BoundGraph& bound, NodeId product) {
  const bool has_lines = bound.metadata().lines.size() > 1;
  return !has_lines && MultipliesTransposed(bound.metadata().PathOf(product));
}

// The same without a bias; the weight's transpose may have been computed by the exporter.
std::optional<Rewritten> FindProduct(const BoundGraph& bound, NodeId product) {
  const std::vector<ValueId>& factors = bound.At(product).inputs;
  if (bound.IsStored(factors[1], 2) && IsComputedName(bound.NameOf(factors[1]))) {
    return Rewritten{"linear", {factors[0], factors[1]}, product, {product}};
  }
  const NodeId transpose = bound.Inner(factors[1], "Transpose");
  const std::span<const NodeId> readers = bound.ReadersOf(bound.At(product).outputs[0]);
  const bool is_spelled = IsSpelledProduct(bound, product) || IsProductOf(bound, product) ||
                          (readers.size() == 1 && IsSpelledSum(bound, readers[0]));
  if (transpose == kNoNode || is_spelled) return std::nullopt;
  const ValueId weight = bound.At(transpose).inputs[0];
  const bool is_weight = bound.IsStored(weight, 2) &&
                         IntsAttribute(bound.At(transpose), "perm") == std::vector<int64_t>{1, 0};
  if (!is_weight) return std::nullopt;
  return Rewritten{"linear", {factors[0], weight}, product, {transpose, product}};
}

// torch.nn.GroupNorm: an instance norm over groups, then weight and bias, [C, 1, 1].  Exporters
// take the second reshape out where it does nothing: of [N, C, L] in C groups.
std::optional<Rewritten> FindGroupNorm(const BoundGraph& bound, NodeId add) {
  const auto inner = [&](NodeId node, std::string_view op) {
    return node == kNoNode ? kNoNode : bound.Inner(bound.At(node).inputs[0], op);
  };
  const NodeId mul = inner(add, "Mul");
  const NodeId ungroup = inner(mul, "Reshape");
  const NodeId norm = inner(ungroup == kNoNode ? mul : ungroup, "InstanceNormalization");
  const NodeId group = inner(norm, "Reshape");
  if (group == kNoNode || bound.At(norm).inputs.size() != 3) return std::nullopt;
  const ValueId weight = bound.At(mul).inputs[1];
  if (ungroup == kNoNode && !bound.IsStored(weight, 2)) return std::nullopt;
  const Dims groups = bound.DimsOf(bound.At(norm).inputs[1]);  // [G]
  Rewritten call = {"group_norm",
                    {bound.At(group).inputs[0], weight, bound.At(add).inputs[1]},
                    add,
                    {group, norm, mul, add},
                    groups};
  if (ungroup != kNoNode) call.nodes.insert(call.nodes.begin() + 2, ungroup);
  return call;
}

std::optional<Rewritten> FindRsqrt(const BoundGraph& bound, NodeId last) {
  const NodeId sqrt = SqrtUnder(bound, last);
  if (sqrt == kNoNode) return std::nullopt;
  return Rewritten{"rsqrt", {bound.At(sqrt).inputs[0]}, last, {sqrt, last}};
}

std::optional<Rewritten> FindRmsNorm(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& factors = bound.At(last).inputs;
  const size_t weight = bound.IsStored(factors[0], 1) ? 0 : 1;
  if (!bound.IsStored(factors[weight], 1)) return std::nullopt;
  const NodeId back = bound.Inner(factors[1 - weight], "Cast");
  const NodeId product =
      bound.Inner(back == kNoNode ? factors[1 - weight] : FirstInput(bound, back), "Mul");
  if (product == kNoNode) return std::nullopt;
  const std::vector<ValueId>& normed = bound.At(product).inputs;
  auto root = FindInverseRoot(bound, normed[1]);
  if (!root.has_value() || root->squared != normed[0]) return std::nullopt;
  const NodeId cast = NoopCast(bound, normed[0]);
  if (cast == kNoNode) return std::nullopt;
  Rewritten call = {"mul", factors, last, root->nodes};
  call.nodes.push_back(product);
  if (back != kNoNode) call.nodes.push_back(back);
  call.nodes.push_back(last);
  // "output = self._norm(x.float()).type_as(x); return output * self.weight" of Llama's first code
  // and its copies, whose cast back leaves no node; T5's weight comes first.
  const bool casts_back = back != kNoNode || weight == 1;
  call.before = RmsNormCalls(bound, normed[0]).Make(*root, product, casts_back);
  call.before.back().takes_place_of = static_cast<int>(1 - weight);
  return call;
}

// By the line of torch.nn.RMSNorm's forward.
bool IsInRmsNorm(const BoundGraph& bound, NodeId node) {
  return bound.metadata().LinesOf(node).innermost.find("rms_norm(") != std::string_view::npos;
}

std::optional<Rewritten> FindFusedRmsNorm(const BoundGraph& bound, NodeId last) {
  if (!IsInRmsNorm(bound, last)) return std::nullopt;
  const std::vector<ValueId>& factors = bound.At(last).inputs;
  const size_t weight = bound.IsStored(factors[0], 1) ? 0 : 1;
  const NodeId product = bound.Inner(factors[1 - weight], "Mul");
  if (product == kNoNode || !bound.IsStored(factors[weight], 1)) return std::nullopt;
  const std::vector<ValueId>& normed = bound.At(product).inputs;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    auto root = FindInverseRoot(bound, normed[1 - side]);
    if (!root.has_value() || root->squared != normed[side]) continue;
    root->nodes.insert(root->nodes.end(), {product, last});
    return Rewritten{"rms_norm", {normed[side], factors[weight]}, last, root->nodes};
  }
  return std::nullopt;
}

std::optional<Rewritten> FindPlainRmsNorm(const BoundGraph& bound, NodeId last) {
  if (!IsInRmsNorm(bound, last)) return std::nullopt;
  const std::vector<ValueId>& normed = bound.At(last).inputs;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    auto root = FindInverseRoot(bound, normed[1 - side]);
    if (!root.has_value() || root->squared != normed[side]) continue;
    root->nodes.push_back(last);
    return Rewritten{"rms_norm", {normed[side]}, last, root->nodes};
  }
  return std::nullopt;
}

std::optional<Rewritten> FindLayerNorm(const BoundGraph& bound, NodeId last) {
  const std::vector<ValueId>& sum = bound.At(last).inputs;
  const size_t bias = bound.IsStored(sum[1], 1) ? 1 : 0;
  const NodeId scale = bound.Inner(sum[1 - bias], "Mul");
  if (scale == kNoNode || !bound.IsStored(sum[bias], 1)) return std::nullopt;
  const std::vector<ValueId>& scaled = bound.At(scale).inputs;
  const size_t weight = bound.IsStored(scaled[1], 1) ? 1 : 0;
  const NodeId div = bound.Inner(scaled[1 - weight], "Div");
  if (div == kNoNode || !bound.IsStored(scaled[weight], 1)) return std::nullopt;
  const NodeId sqrt = bound.Inner(bound.At(div).inputs[1], "Sqrt");
  const NodeId add = bound.Inner(FirstInput(bound, sqrt), "Add");
  const NodeId variance = bound.Inner(WithoutEpsilon(bound, add), "ReduceMean");
  const NodeId pow = bound.Inner(FirstInput(bound, variance), "Pow");
  const ValueId centred = Squared(bound, pow);
  const NodeId sub = bound.Maker(centred, "Sub");
  if (sub == kNoNode || centred != bound.At(div).inputs[0]) return std::nullopt;
  const NodeId mean = bound.Inner(bound.At(sub).inputs[1], "ReduceMean");
  const ValueId x = bound.At(sub).inputs[0];
  const bool is_private = bound.ReadersOf(centred).size() == 2;
  if (!is_private || FirstInput(bound, mean) != x) return std::nullopt;
  return Rewritten{"layer_norm",
                   {x, scaled[weight], sum[bias]},
                   last,
                   {mean, sub, pow, variance, add, sqrt, div, scale, last}};
}

}  // namespace onnxfit
