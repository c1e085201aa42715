#include "estimator/recover/attention.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/fx_node.h"
#include "estimator/recover/masks.h"

namespace onnxfit {
namespace {

constexpr size_t kMaskInput = 3;
constexpr size_t kKeyInput = 1;

// What is gathered on the way from the product with v to q and k.
struct AttentionParts {
  std::vector<NodeId> nodes;  // from the last to the first
  NodeId dropout = kNoNode;
  NodeId softmax = kNoNode;
  ValueId mask = kNoValue;
  ValueId q = kNoValue;
  ValueId key = kNoValue;         // what the exporter's transpose of k reads
  std::vector<int64_t> key_perm;  // k as PyTorch has it, of `key`; empty: `key` itself
  Dims key_view;                  // likewise, a view of `key`
};

// Steps over `value`'s maker, if it is an inner `op_type`: what it reads first, else `value`.
ValueId StepOver(const Pattern& pattern, ValueId value, std::string_view op_type,
                 AttentionParts& parts) {
  const NodeId node = pattern.Inner(value, op_type);
  if (node == kNoNode) return value;
  parts.nodes.push_back(node);
  if (op_type == "Dropout") parts.dropout = node;
  return pattern.At(node).inputs[0];
}

// Where (IsNaN (s), 0, s), the rows in which a bool mask hides everything.
ValueId StepOverGuard(const Pattern& pattern, ValueId value, AttentionParts& parts) {
  const NodeId where = pattern.Inner(value, "Where");
  if (where == kNoNode) return value;
  const std::vector<ValueId>& inputs = pattern.At(where).inputs;
  const NodeId is_nan = pattern.Inner(inputs[0], "IsNaN");
  if (is_nan == kNoNode || pattern.At(is_nan).inputs[0] != inputs[2]) return value;
  parts.nodes.insert(parts.nodes.end(), {where, is_nan});
  return inputs[2];
}

// A Softmax that only `parts` reads: its guard does so twice.
NodeId InnerSoftmax(const Pattern& pattern, ValueId value, const AttentionParts& parts) {
  const NodeId softmax = pattern.Maker(value, "Softmax");
  if (softmax == kNoNode) return kNoNode;
  const size_t guard_reads = parts.nodes.empty() ? 0 : 1;
  const bool is_inner = pattern.ReadersOf(value).size() <= 1 + guard_reads;
  const int64_t last = static_cast<int64_t>(pattern.DimsOf(value).size()) - 1;
  const int64_t axis = IntAttribute(pattern.At(softmax), "axis", -1);
  return is_inner && (axis == -1 || axis == last) ? softmax : kNoNode;
}

// The product of q and k, a mask added or not.
NodeId FindScores(const Pattern& pattern, ValueId scores, AttentionParts& parts) {
  const NodeId product = pattern.Inner(scores, "MatMul");
  if (product != kNoNode) return product;
  const NodeId add = pattern.Inner(scores, "Add");
  const size_t side = add == kNoNode ? 2 : pattern.InnerSide(pattern.At(add), "MatMul");
  if (side > 1) return kNoNode;
  parts.nodes.push_back(add);
  parts.mask = pattern.At(add).inputs[1 - side];
  return pattern.Inner(pattern.At(add).inputs[side], "MatMul");
}

// The call that torch.export says `node` came from; "" where it says none.
std::string_view CallOf(const Pattern& pattern, NodeId node) {
  const auto call = FxNodeOf(pattern.At(node));
  return call.has_value() ? call->name : std::string_view();
}

bool IsSaidToBeAttention(const FxNode& call) {
  return call.target.starts_with("aten.scaled_dot_product_attention");
}

// What a Mul with a single number, on the right, scales in the call of `product`; kNoValue where
// none does, but a scale of 1 that the exporter has left out.
ValueId Unscaled(const Pattern& pattern, NodeId product, ValueId value, AttentionParts& parts) {
  const NodeId mul = pattern.Inner(value, "Mul");
  const auto call = FxNodeOf(pattern.At(product));
  const bool is_said = call.has_value() && IsSaidToBeAttention(*call);
  if (mul == kNoNode || !pattern.IsNumber(pattern.At(mul).inputs[1]) ||
      (is_said && CallOf(pattern, mul) != call->name)) {
    return is_said ? value : kNoValue;
  }
  parts.nodes.push_back(mul);
  return pattern.At(mul).inputs[0];
}

// What PyTorch's own transpose of `key` made, where the file still has it; else kNoValue.
ValueId OwnTranspose(const Pattern& pattern, ValueId key, const std::vector<int64_t>& perm) {
  for (const NodeId reader : pattern.ReadersOf(key)) {
    const Node& node = pattern.At(reader);
    if (node.op_type == "Transpose" && IntsAttribute(node, "perm") == perm) return node.outputs[0];
  }
  return kNoValue;
}

// kᵀ as TorchScript's exporter makes it: one Transpose, merged with k's own.
bool FindTransposed(const Pattern& pattern, ValueId value, AttentionParts& parts) {
  const NodeId transpose = pattern.Inner(value, "Transpose");
  if (transpose == kNoNode) return false;
  std::vector<int64_t> perm = IntsAttribute(pattern.At(transpose), "perm");
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  parts.nodes.push_back(transpose);
  parts.key = pattern.At(transpose).inputs[0];
  if (std::ranges::is_sorted(perm)) return true;
  const ValueId own = OwnTranspose(pattern, parts.key, perm);
  if (own == kNoValue) {
    parts.key_perm = std::move(perm);
  } else {
    parts.key = own;
  }
  return true;
}

// kᵀ as torch.export's exporter makes it: Reshape [-1, S, D], Transpose, Reshape.  Where sizes are
// numbers it has merged the first with k's own view, or has neither.
bool FindFlattened(const Pattern& pattern, ValueId value, AttentionParts& parts) {
  const NodeId unflatten = pattern.Inner(value, "Reshape");
  if (unflatten == kNoNode) return false;
  const NodeId transpose = pattern.Inner(pattern.At(unflatten).inputs[0], "Transpose");
  const std::vector<int64_t> swapped = {0, 2, 1};
  if (transpose == kNoNode || IntsAttribute(pattern.At(transpose), "perm") != swapped) return false;
  Dims dims = pattern.DimsOf(value);
  const Dims& flat = pattern.DimsOf(pattern.At(unflatten).inputs[0]);
  const bool keeps_matrices = dims.size() >= 2 && flat.size() == swapped.size() &&
                              std::equal(flat.end() - 2, flat.end(), dims.end() - 2);
  if (!keeps_matrices) return false;
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  parts.nodes.insert(parts.nodes.end(), {unflatten, transpose});
  parts.key = pattern.At(transpose).inputs[0];
  const NodeId flatten = pattern.Inner(parts.key, "Reshape");
  if (flatten != kNoNode && CallOf(pattern, flatten) == CallOf(pattern, transpose)) {
    parts.nodes.push_back(flatten);
    parts.key = pattern.At(flatten).inputs[0];
  }
  if (dims != pattern.DimsOf(parts.key)) parts.key_view = std::move(dims);
  return true;
}

bool FindFactors(const Pattern& pattern, NodeId product, AttentionParts& parts) {
  const std::vector<ValueId>& factors = pattern.At(product).inputs;
  parts.q = Unscaled(pattern, product, factors[0], parts);
  const ValueId transposed = Unscaled(pattern, product, factors[1], parts);
  if (parts.q == kNoValue || transposed == kNoValue) return false;
  return FindTransposed(pattern, transposed, parts) || FindFlattened(pattern, transposed, parts);
}

// k's own transpose, which the exporter's swallowed.
HiddenCall KeyTranspose(const Pattern& pattern, const AttentionParts& parts) {
  TensorType type = pattern.TypeOf(parts.key);
  const Dims dims = type.dims;
  for (size_t i = 0; i < dims.size(); ++i) type.dims[i] = dims[Index(parts.key_perm[i])];
  return {.aten = "permute",
          .inputs = {{.value = parts.key}},
          .type = std::move(type),
          .ints = parts.key_perm,
          .takes_place_of = kKeyInput};
}

// k's own view, which the exporter's swallowed.
HiddenCall KeyView(const Pattern& pattern, const AttentionParts& parts) {
  return {.aten = "view",
          .inputs = {{.value = parts.key}},
          .type = {pattern.TypeOf(parts.key).dtype, parts.key_view},
          .takes_place_of = kKeyInput};
}

// [1, H, S, S] of a bias [1, H, 1, S]: what a mask of the scores' last two dimensions makes.
Dims MaskedDims(Dims bias, const Dims& scores) {
  const size_t rank = std::min(bias.size(), size_t{2});
  for (size_t i = 1; i <= rank; ++i) bias[bias.size() - i] = scores[scores.size() - i];
  return bias;
}

// torch.where (arange (S)[:, None] >= arange (S), bias, -3e38), made anew by each call, though
// the file may share it.  Source: create_position_bias_mask of transformers 5.17,
// integrations/sdpa_attention.py.
void AddMaskedBias(const Pattern& pattern, ValueId bias, const Dims& scores, Rewritten& call) {
  const int64_t rows = scores[scores.size() - 2];
  const int64_t columns = scores.back();
  const auto index = static_cast<int>(call.before.size());
  TensorType masked = pattern.TypeOf(bias);
  masked.dims = MaskedDims(masked.dims, scores);
  call.before.push_back({"constant", {}, {DType::kInt64, {rows}}});
  call.before.push_back({"constant", {}, {DType::kInt64, {columns}}});
  call.before.push_back(
      {"ge", {{.hidden = index}, {.hidden = index + 1}}, {DType::kBool, {1, 1, rows, columns}}});
  call.before.push_back({"constant", {}, {masked.dtype, {}}});  // the number, on the device
  call.before.push_back({"where",
                         {{.hidden = index + 2}, {.value = bias}, {.hidden = index + 3}},
                         std::move(masked),
                         {},
                         kMaskInput});
}

// The argument at `place`, or that is called `name`: its text; "" where the call leaves it out.
std::string_view ArgumentText(const FxNode& call, size_t place, std::string_view name) {
  for (const auto& [key, argument] : call.named) {
    if (key == name) return argument.text;
  }
  return place < call.arguments.size() ? call.arguments[place].text : std::string_view();
}

// What torch.export says of the call that `last` ends; nothing where it says none.
struct SaidAttention {
  bool has_mask = false;
  bool drops_out = false;  // of which the exporter writes no node
  bool is_causal = false;
};

std::optional<SaidAttention> SaidOf(const Pattern& pattern, NodeId last) {
  const auto call = FxNodeOf(pattern.At(last));
  if (!call.has_value() || !IsSaidToBeAttention(*call)) return std::nullopt;
  const std::string_view mask = ArgumentText(*call, 3, "attn_mask");
  const std::string_view p = ArgumentText(*call, 4, "dropout_p");
  return SaidAttention{.has_mask = !mask.empty() && mask != "None",
                       .drops_out = p.find_first_of("123456789") != std::string_view::npos,
                       .is_causal = ArgumentText(*call, 5, "is_causal") == "True"};
}

AttentionMask MaskOfCall(const Pattern& pattern, const std::optional<SaidAttention>& said,
                         ValueId mask) {
  if (said.has_value() && !said->has_mask) return {.causal = said->is_causal};
  return mask == kNoValue ? AttentionMask() : ReadMask(pattern, mask);
}

Rewritten MakeCall(const Pattern& pattern, NodeId last, const Dims& scores, AttentionParts parts) {
  const std::optional<SaidAttention> said = SaidOf(pattern, last);
  const AttentionMask mask = MaskOfCall(pattern, said, parts.mask);
  if (said.has_value() && said->drops_out) parts.dropout = parts.softmax;  // for want of a Dropout
  std::reverse(parts.nodes.begin(), parts.nodes.end());
  parts.nodes.push_back(last);
  Rewritten call = {.aten = "scaled_dot_product_attention",
                    .inputs = {parts.q, parts.key, pattern.At(last).inputs[1], mask.tensor},
                    .last = last,
                    .nodes = parts.nodes,
                    .ints = {0, mask.causal && mask.tensor == kNoValue ? 1 : 0},
                    .dropout = parts.dropout};
  if (!parts.key_perm.empty()) call.before.push_back(KeyTranspose(pattern, parts));
  if (!parts.key_view.empty()) call.before.push_back(KeyView(pattern, parts));
  if (mask.causal && mask.tensor != kNoValue) AddMaskedBias(pattern, mask.tensor, scores, call);
  return call;
}

// proj[0], proj[1] and nothing else is read of `value`.
bool IsTakenApart(const Pattern& pattern, ValueId value) {
  const std::vector<NodeId>& readers = pattern.ReadersOf(value);
  return readers.size() > 1 && std::ranges::all_of(readers, [&](NodeId reader) {
           const Node& node = pattern.At(reader);
           return node.op_type == "Gather" && node.inputs[0] == value &&
                  IntAttribute(node, "axis", 0) == 0 && pattern.DimsOf(node.inputs[1]).empty();
         });
}

}  // namespace

std::optional<Rewritten> FindZeroBias(const Pattern& pattern, NodeId last) {
  const ValueId zeros = pattern.At(last).outputs[0];
  const bool is_bias = IsFloat(pattern.TypeOf(zeros).dtype) && pattern.DimsOf(zeros).size() == 4;
  if (!is_bias || pattern.NumberOf(zeros) != 0 || pattern.ReadersOf(zeros).empty()) {
    return std::nullopt;
  }
  for (const NodeId reader : pattern.ReadersOf(zeros)) {
    const ValueId masked = pattern.At(reader).outputs[0];
    if (ReadMask(pattern, masked).tensor != zeros) return std::nullopt;
    for (const NodeId add : pattern.ReadersOf(masked)) {
      if (pattern.InnerSide(pattern.At(add), "MatMul") > 1) return std::nullopt;
    }
  }
  return Rewritten{
      .aten = "constant", .inputs = {}, .last = last, .nodes = {last}, .in_compute_type = true};
}

std::optional<Rewritten> FindPackedProjection(const Pattern& pattern, NodeId last) {
  const Node& squeeze = pattern.At(last);
  const NodeId transpose = pattern.Inner(squeeze.inputs[0], "Transpose");
  if (transpose == kNoNode || !IsTakenApart(pattern, squeeze.outputs[0])) return std::nullopt;
  if (pattern.Inner(pattern.At(transpose).inputs[0], "Unsqueeze") == kNoNode) return std::nullopt;
  const ValueId packed = squeeze.inputs[0];
  return Rewritten{.aten = "contiguous",
                   .inputs = {packed},
                   .last = last,
                   .nodes = {last},
                   .before = {{.aten = "view",
                               .inputs = {{.value = packed}},
                               .type = pattern.TypeOf(squeeze.outputs[0]),
                               .takes_place_of = 0}}};
}

std::optional<Rewritten> FindAttention(const Pattern& pattern, NodeId last) {
  AttentionParts parts;
  const std::vector<ValueId>& inputs = pattern.At(last).inputs;
  ValueId weights = StepOver(pattern, inputs[0], "Dropout", parts);
  weights = StepOverGuard(pattern, weights, parts);
  const NodeId softmax = InnerSoftmax(pattern, weights, parts);
  if (softmax == kNoNode) return std::nullopt;
  parts.nodes.push_back(softmax);
  parts.softmax = softmax;
  const ValueId scores = pattern.At(softmax).inputs[0];
  const NodeId product = FindScores(pattern, scores, parts);
  if (product == kNoNode) return std::nullopt;
  parts.nodes.push_back(product);
  if (!FindFactors(pattern, product, parts)) return std::nullopt;
  return MakeCall(pattern, last, pattern.DimsOf(scores), std::move(parts));
}

}  // namespace onnxfit
