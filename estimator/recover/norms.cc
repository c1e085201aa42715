#include "estimator/recover/norms.h"

#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/source_text.h"

namespace onnxfit {
namespace {

ValueId FirstInput(const Pattern& pattern, NodeId node) {
  return node == kNoNode ? kNoValue : pattern.At(node).inputs[0];
}

// The Sqrt under 1 / √x or Reciprocal (√x).
NodeId SqrtUnder(const Pattern& pattern, NodeId last) {
  const Node& node = pattern.At(last);
  if (node.op_type == "Reciprocal") return pattern.Inner(node.inputs[0], "Sqrt");
  const bool is_one = node.op_type == "Div" && pattern.NumberOf(node.inputs[0]) == 1;
  return is_one ? pattern.Inner(node.inputs[1], "Sqrt") : kNoNode;
}

// The operand of an Add that is not its small number, kNoValue where there is none.
ValueId WithoutEpsilon(const Pattern& pattern, NodeId add) {
  if (add == kNoNode) return kNoValue;
  const std::vector<ValueId>& inputs = pattern.At(add).inputs;
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const double number = pattern.NumberOf(inputs[side]);
    if (number > 0 && number < 0.1) return inputs[1 - side];
  }
  return kNoValue;
}

// What a Pow squares.
ValueId Squared(const Pattern& pattern, NodeId pow) {
  if (pow == kNoNode || pattern.NumberOf(pattern.At(pow).inputs[1]) != 2) return kNoValue;
  return pattern.At(pow).inputs[0];
}

// From the inverse root back to what is squared.
struct InverseRoot {
  std::vector<NodeId> nodes;  // Pow, ReduceMean, Add, Sqrt, and 1 / √
  ValueId squared = kNoValue;
};

std::optional<InverseRoot> FindInverseRoot(const Pattern& pattern, ValueId value) {
  NodeId inverse = pattern.Inner(value, "Div");
  if (inverse == kNoNode) inverse = pattern.Inner(value, "Reciprocal");
  const NodeId sqrt = inverse == kNoNode ? kNoNode : SqrtUnder(pattern, inverse);
  const NodeId add = pattern.Inner(FirstInput(pattern, sqrt), "Add");
  const NodeId mean = pattern.Inner(WithoutEpsilon(pattern, add), "ReduceMean");
  const NodeId pow = pattern.Inner(FirstInput(pattern, mean), "Pow");
  const ValueId squared = Squared(pattern, pow);
  if (squared == kNoValue) return std::nullopt;
  return InverseRoot{{pow, mean, add, sqrt, inverse}, squared};
}

const TensorType& ResultOf(const Pattern& pattern, NodeId node) {
  return pattern.TypeOf(pattern.At(node).outputs[0]);
}

// A cast that does nothing in the exported model.
NodeId NoopCast(const Pattern& pattern, ValueId value) {
  const NodeId cast = pattern.Maker(value, "Cast");
  const bool is_noop =
      cast != kNoNode && pattern.TypeOf(pattern.At(cast).inputs[0]) == pattern.TypeOf(value);
  return is_noop ? cast : kNoNode;
}

// The calls of the norm up to its product with the weight.
class RmsNormCalls {
 public:
  RmsNormCalls(const Pattern& pattern, ValueId x) : pattern_(pattern), x_{.value = x} {}

  // Casts back to the model's precision: all that is before the last call.
  std::vector<HiddenCall> Make(const InverseRoot& root, NodeId product, bool casts_back) {
    const TensorType type = ResultOf(pattern_, product);
    const HiddenCall::Operand cast = Add("to", {x_}, type, /*as_written=*/true);
    HiddenCall::Operand made = cast;  // in fp32 from here on
    for (size_t i = 0; i < root.nodes.size(); ++i) {
      constexpr std::string_view kCalls[] = {"pow.Tensor_Scalar", "mean", "add.Scalar", "",
                                             "rsqrt"};
      if (!kCalls[i].empty())
        made = Add(kCalls[i], {made}, ResultOf(pattern_, root.nodes[i]), true);
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

  const Pattern& pattern_;
  HiddenCall::Operand x_;
  std::vector<HiddenCall> calls_;
};

}  // namespace

std::optional<Rewritten> FindRsqrt(const Pattern& pattern, NodeId last) {
  const NodeId sqrt = SqrtUnder(pattern, last);
  if (sqrt == kNoNode) return std::nullopt;
  return Rewritten{"rsqrt", {pattern.At(sqrt).inputs[0]}, last, {sqrt, last}};
}

std::optional<Rewritten> FindRmsNorm(const Pattern& pattern, NodeId last) {
  const std::vector<ValueId>& factors = pattern.At(last).inputs;
  const size_t weight = pattern.IsStored(factors[0], 1) ? 0 : 1;
  if (!pattern.IsStored(factors[weight], 1)) return std::nullopt;
  const NodeId back = pattern.Inner(factors[1 - weight], "Cast");
  const NodeId product =
      pattern.Inner(back == kNoNode ? factors[1 - weight] : FirstInput(pattern, back), "Mul");
  if (product == kNoNode) return std::nullopt;
  const std::vector<ValueId>& normed = pattern.At(product).inputs;
  auto root = FindInverseRoot(pattern, normed[1]);
  if (!root.has_value() || root->squared != normed[0]) return std::nullopt;
  const NodeId cast = NoopCast(pattern, normed[0]);
  if (cast == kNoNode) return std::nullopt;
  Rewritten call = {"mul", factors, last, root->nodes};
  call.nodes.push_back(product);
  if (back != kNoNode) call.nodes.push_back(back);
  call.nodes.push_back(last);
  call.before = RmsNormCalls(pattern, normed[0]).Make(*root, product, back != kNoNode);
  call.before.back().takes_place_of = static_cast<int>(1 - weight);
  return call;
}

std::optional<Rewritten> FindFusedRmsNorm(const Pattern& pattern, NodeId last) {
  const std::vector<SourceFrame> frames = SourceFrames(pattern.At(last));
  if (InnermostLine(frames).find("rms_norm(") == std::string_view::npos) return std::nullopt;
  const std::vector<ValueId>& factors = pattern.At(last).inputs;
  const size_t weight = pattern.IsStored(factors[0], 1) ? 0 : 1;
  const NodeId product = pattern.Inner(factors[1 - weight], "Mul");
  if (product == kNoNode || !pattern.IsStored(factors[weight], 1)) return std::nullopt;
  const std::vector<ValueId>& normed = pattern.At(product).inputs;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    auto root = FindInverseRoot(pattern, normed[1 - side]);
    if (!root.has_value() || root->squared != normed[side]) continue;
    root->nodes.insert(root->nodes.end(), {product, last});
    return Rewritten{"rms_norm", {normed[side], factors[weight]}, last, root->nodes};
  }
  return std::nullopt;
}

std::optional<Rewritten> FindPlainRmsNorm(const Pattern& pattern, NodeId last) {
  const std::vector<SourceFrame> frames = SourceFrames(pattern.At(last));
  if (InnermostLine(frames).find("rms_norm(") == std::string_view::npos) return std::nullopt;
  const std::vector<ValueId>& normed = pattern.At(last).inputs;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    auto root = FindInverseRoot(pattern, normed[1 - side]);
    if (!root.has_value() || root->squared != normed[side]) continue;
    root->nodes.push_back(last);
    return Rewritten{"rms_norm", {normed[side]}, last, root->nodes};
  }
  return std::nullopt;
}

std::optional<Rewritten> FindLayerNorm(const Pattern& pattern, NodeId last) {
  const std::vector<ValueId>& sum = pattern.At(last).inputs;
  const size_t bias = pattern.IsStored(sum[1], 1) ? 1 : 0;
  const NodeId scale = pattern.Inner(sum[1 - bias], "Mul");
  if (scale == kNoNode || !pattern.IsStored(sum[bias], 1)) return std::nullopt;
  const std::vector<ValueId>& scaled = pattern.At(scale).inputs;
  const size_t weight = pattern.IsStored(scaled[1], 1) ? 1 : 0;
  const NodeId div = pattern.Inner(scaled[1 - weight], "Div");
  if (div == kNoNode || !pattern.IsStored(scaled[weight], 1)) return std::nullopt;
  const NodeId sqrt = pattern.Inner(pattern.At(div).inputs[1], "Sqrt");
  const NodeId add = pattern.Inner(FirstInput(pattern, sqrt), "Add");
  const NodeId variance = pattern.Inner(WithoutEpsilon(pattern, add), "ReduceMean");
  const NodeId pow = pattern.Inner(FirstInput(pattern, variance), "Pow");
  const ValueId centred = Squared(pattern, pow);
  const NodeId sub = pattern.Maker(centred, "Sub");
  if (sub == kNoNode || centred != pattern.At(div).inputs[0]) return std::nullopt;
  const NodeId mean = pattern.Inner(pattern.At(sub).inputs[1], "ReduceMean");
  const ValueId x = pattern.At(sub).inputs[0];
  const bool is_private = pattern.ReadersOf(centred).size() == 2;
  if (!is_private || FirstInput(pattern, mean) != x) return std::nullopt;
  return Rewritten{"layer_norm",
                   {x, scaled[weight], sum[bias]},
                   last,
                   {mean, sub, pow, variance, add, sqrt, div, scale, last}};
}

}  // namespace onnxfit
