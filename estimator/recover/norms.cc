#include "estimator/recover/norms.h"

#include <utility>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

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

  // Casts back to the model's precision: all that is before the last call.
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
    Add("to", {made}, type);
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
  call.before = RmsNormCalls(bound, normed[0]).Make(*root, product, back != kNoNode);
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
