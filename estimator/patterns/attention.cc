// Scaled-dot-product attention, which exporters write in its parts, and what its masks are to
// PyTorch.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/patterns/masks.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

// --- Attention ------------------------------------------------------------------------------

constexpr size_t kMaskInput = 3;
constexpr int kKeyInput = 1;

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
ValueId StepOver(const BoundGraph& bound, ValueId value, std::string_view op_type,
                 AttentionParts& parts) {
  const NodeId node = bound.Inner(value, op_type);
  if (node == kNoNode) return value;
  parts.nodes.push_back(node);
  if (op_type == "Dropout") parts.dropout = node;
  return bound.At(node).inputs[0];
}

// Where (IsNaN (s), 0, s), the rows in which a bool mask hides everything.
ValueId StepOverGuard(const BoundGraph& bound, ValueId value, AttentionParts& parts) {
  const NodeId where = bound.Inner(value, "Where");
  if (where == kNoNode) return value;
  const std::vector<ValueId>& inputs = bound.At(where).inputs;
  const NodeId is_nan = bound.Inner(inputs[0], "IsNaN");
  if (is_nan == kNoNode || bound.At(is_nan).inputs[0] != inputs[2]) return value;
  parts.nodes.insert(parts.nodes.end(), {where, is_nan});
  return inputs[2];
}

// A Softmax that only `parts` reads: its guard does so twice.
NodeId InnerSoftmax(const BoundGraph& bound, ValueId value, const AttentionParts& parts) {
  const NodeId softmax = bound.Maker(value, "Softmax");
  if (softmax == kNoNode) return kNoNode;
  const size_t guard_reads = parts.nodes.empty() ? 0 : 1;
  const bool is_inner = bound.ReadersOf(value).size() <= 1 + guard_reads;
  const int64_t last = static_cast<int64_t>(bound.DimsOf(value).size()) - 1;
  const int64_t axis = IntAttribute(bound.At(softmax), "axis", -1);
  return is_inner && (axis == -1 || axis == last) ? softmax : kNoNode;
}

// The product of q and k, a mask added or not.
NodeId FindScores(const BoundGraph& bound, ValueId scores, AttentionParts& parts) {
  const NodeId product = bound.Inner(scores, "MatMul");
  if (product != kNoNode) return product;
  const NodeId add = bound.Inner(scores, "Add");
  const size_t side = add == kNoNode ? 2 : bound.InnerSide(bound.At(add), "MatMul");
  if (side > 1) return kNoNode;
  parts.nodes.push_back(add);
  parts.mask = bound.At(add).inputs[1 - side];
  return bound.Inner(bound.At(add).inputs[side], "MatMul");
}

// The call that torch.export says `node` came from; "" where it says none.
std::string_view CallOf(const BoundGraph& bound, NodeId node) {
  const FxNode* call = bound.metadata().CallOf(node);
  return call == nullptr ? std::string_view() : call->name;
}

bool IsSaidToBeAttention(const FxNode& call) {
  return call.target.starts_with("aten.scaled_dot_product_attention");
}

// What a Mul with a single number, on the right, scales in the call of `product`; kNoValue where
// none does, but a scale of 1 that the exporter has left out.
ValueId Unscaled(const BoundGraph& bound, NodeId product, ValueId value, AttentionParts& parts) {
  const NodeId mul = bound.Inner(value, "Mul");
  const FxNode* call = bound.metadata().CallOf(product);
  const bool is_said = call != nullptr && IsSaidToBeAttention(*call);
  if (mul == kNoNode || !bound.IsNumber(bound.At(mul).inputs[1]) ||
      (is_said && CallOf(bound, mul) != call->name)) {
    return is_said ? value : kNoValue;
  }
  parts.nodes.push_back(mul);
  return bound.At(mul).inputs[0];
}

// What PyTorch's own transpose of `key` made, where the file still has it; else kNoValue.
ValueId OwnTranspose(const BoundGraph& bound, ValueId key, const std::vector<int64_t>& perm) {
  for (const NodeId reader : bound.ReadersOf(key)) {
    const Node& node = bound.At(reader);
    if (node.op_type == "Transpose" && IntsAttribute(node, "perm") == perm) return node.outputs[0];
  }
  return kNoValue;
}

// kᵀ as TorchScript's exporter makes it: one Transpose, merged with k's own.
bool FindTransposed(const BoundGraph& bound, ValueId value, AttentionParts& parts) {
  const NodeId transpose = bound.Inner(value, "Transpose");
  if (transpose == kNoNode) return false;
  std::vector<int64_t> perm = IntsAttribute(bound.At(transpose), "perm");
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  parts.nodes.push_back(transpose);
  parts.key = bound.At(transpose).inputs[0];
  if (std::ranges::is_sorted(perm)) return true;
  const ValueId own = OwnTranspose(bound, parts.key, perm);
  if (own == kNoValue) {
    parts.key_perm = std::move(perm);
  } else {
    parts.key = own;
  }
  return true;
}

// kᵀ as torch.export's exporter makes it: Reshape [-1, S, D], Transpose, Reshape.  Where sizes are
// numbers it has merged the first with k's own view, or has neither.
bool FindFlattened(const BoundGraph& bound, ValueId value, AttentionParts& parts) {
  const NodeId unflatten = bound.Inner(value, "Reshape");
  if (unflatten == kNoNode) return false;
  const NodeId transpose = bound.Inner(bound.At(unflatten).inputs[0], "Transpose");
  const std::vector<int64_t> swapped = {0, 2, 1};
  if (transpose == kNoNode || IntsAttribute(bound.At(transpose), "perm") != swapped) return false;
  Dims dims = bound.DimsOf(value);
  const Dims& flat = bound.DimsOf(bound.At(unflatten).inputs[0]);
  const bool keeps_matrices = dims.size() >= 2 && flat.size() == swapped.size() &&
                              std::equal(flat.end() - 2, flat.end(), dims.end() - 2);
  if (!keeps_matrices) return false;
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  parts.nodes.insert(parts.nodes.end(), {unflatten, transpose});
  parts.key = bound.At(transpose).inputs[0];
  const NodeId flatten = bound.Inner(parts.key, "Reshape");
  if (flatten != kNoNode && CallOf(bound, flatten) == CallOf(bound, transpose)) {
    parts.nodes.push_back(flatten);
    parts.key = bound.At(flatten).inputs[0];
  }
  if (dims != bound.DimsOf(parts.key)) parts.key_view = std::move(dims);
  return true;
}

// kᵀ of a k that is a transpose itself, which the exporter has taken back: the root of a scale that
// it computes of sizes shows whose product it is.
bool FindTakenBack(const BoundGraph& bound, NodeId product, ValueId value, AttentionParts& parts) {
  const NodeId mul = bound.Maker(bound.At(product).inputs[1], "Mul");
  if (mul == kNoNode || bound.Maker(bound.At(mul).inputs[1], "Sqrt") == kNoNode) return false;
  const size_t rank = bound.DimsOf(value).size();
  for (size_t i = 0; i < rank; ++i) parts.key_perm.push_back(static_cast<int64_t>(i));
  std::swap(parts.key_perm[rank - 1], parts.key_perm[rank - 2]);
  parts.key = value;
  return true;
}

bool FindFactors(const BoundGraph& bound, NodeId product, AttentionParts& parts) {
  const std::vector<ValueId>& factors = bound.At(product).inputs;
  parts.q = Unscaled(bound, product, factors[0], parts);
  const ValueId transposed = Unscaled(bound, product, factors[1], parts);
  if (parts.q == kNoValue || transposed == kNoValue) return false;
  return FindTransposed(bound, transposed, parts) || FindFlattened(bound, transposed, parts) ||
         FindTakenBack(bound, product, transposed, parts);
}

// k's own transpose, which the exporter's swallowed.
HiddenCall KeyTranspose(const BoundGraph& bound, const AttentionParts& parts) {
  TensorType type = bound.TypeOf(parts.key);
  const Dims dims = type.dims;
  for (size_t i = 0; i < dims.size(); ++i) type.dims[i] = dims[Index(parts.key_perm[i])];
  return {.aten = "permute",
          .inputs = {{.value = parts.key}},
          .type = std::move(type),
          .ints = parts.key_perm,
          .takes_place_of = kKeyInput};
}

// x.contiguous() of the operand `input`, of which TorchScript's exporter writes nothing: fused
// kernels read rows of numbers that are side by side, so that code copies what is transposed (timm
// 1.0.31, layers/attention2d.py: "q.transpose(-1, -2).contiguous()").
// Heads where `copies_heads`, too.
void CopyTransposed(const BoundGraph& bound, int input, bool copies_heads, Rewritten& call) {
  const ValueId value = call.inputs[Index(input)];
  const auto hidden = std::ranges::find(call.before, input, &HiddenCall::takes_place_of);
  if (hidden != call.before.end()) {
    if (hidden->aten != "permute" || !(copies_heads || MovesLast(hidden->ints))) return;
    const int index = static_cast<int>(hidden - call.before.begin());
    HiddenCall copy = {.aten = "contiguous",
                       .inputs = {{.hidden = index}},
                       .type = hidden->type,
                       .takes_place_of = input};
    hidden->takes_place_of = -1;
    call.before.push_back(std::move(copy));
    return;
  }
  const NodeId transpose = bound.Maker(value, "Transpose");
  if (transpose == kNoNode) return;
  if (!copies_heads && !MovesLast(IntsAttribute(bound.At(transpose), "perm"))) return;
  call.before.push_back({.aten = "contiguous",
                         .inputs = {{.value = value}},
                         .type = bound.TypeOf(value),
                         .takes_place_of = input});
}

// k's own view, which the exporter's swallowed.
HiddenCall KeyView(const BoundGraph& bound, const AttentionParts& parts) {
  return {.aten = "view",
          .inputs = {{.value = parts.key}},
          .type = {bound.TypeOf(parts.key).dtype, parts.key_view},
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
void AddMaskedBias(const BoundGraph& bound, ValueId bias, const Dims& scores, Rewritten& call) {
  const int64_t rows = scores[scores.size() - 2];
  const int64_t columns = scores.back();
  const auto index = static_cast<int>(call.before.size());
  TensorType masked = bound.TypeOf(bias);
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
  bool is_grouped = false;  // it repeats the heads of keys and values
};

std::optional<SaidAttention> SaidOf(const BoundGraph& bound, NodeId last) {
  const FxNode* call = bound.metadata().CallOf(last);
  if (call == nullptr || !IsSaidToBeAttention(*call)) return std::nullopt;
  const std::string_view mask = ArgumentText(*call, 3, "attn_mask");
  const std::string_view p = ArgumentText(*call, 4, "dropout_p");
  return SaidAttention{.has_mask = !mask.empty() && mask != "None",
                       .drops_out = p.find_first_of("123456789") != std::string_view::npos,
                       .is_causal = ArgumentText(*call, 5, "is_causal") == "True",
                       .is_grouped = ArgumentText(*call, 7, "enable_gqa") == "True"};
}

// The bool mask that the call `last` ends was given, where the model's own lines make it: no run
// leaves it out, whatever it shows.  Else kNoValue.
ValueId MaskOfModel(const BoundGraph& bound, NodeId last, ValueId mask) {
  const NodeId where = mask == kNoValue ? kNoNode : bound.Maker(mask, "Where");
  if (where == kNoNode || CallOf(bound, where) != CallOf(bound, last)) return kNoValue;
  const ValueId given = bound.At(where).inputs[0];
  const NodeId maker = bound.graph().values[Index(given)].producer;
  const bool is_made = maker != kNoNode && IsMaskOfModel(bound.metadata(), maker);
  return is_made ? given : kNoValue;
}

// The same of a file without lines, where a library's attention tells that the mask is made.
ValueId MaskOfLibrary(const BoundGraph& bound, NodeId last, ValueId mask) {
  const NodeId where = mask == kNoValue ? kNoNode : bound.Maker(mask, "Where");
  if (where == kNoNode || !IsNamedByTorchScript(bound.At(last))) return kNoValue;
  const std::string& module = bound.metadata().PathOf(last);
  if (!MakesMaskAlways(module)) return kNoValue;
  const std::string bias = module + ".dense.bias";
  const bool has_bias = std::ranges::any_of(
      bound.graph().initializers,
      [&](const Initializer& stored) { return bound.NameOf(stored.value) == bias; });
  return has_bias ? kNoValue : bound.At(where).inputs[0];
}

AttentionMask MaskOfCall(const BoundGraph& bound, const std::optional<SaidAttention>& said,
                         NodeId last, ValueId mask) {
  if (said.has_value() && !said->has_mask) return {.causal = said->is_causal};
  const ValueId own =
      said.has_value() ? MaskOfModel(bound, last, mask) : MaskOfLibrary(bound, last, mask);
  if (own != kNoValue) return {.tensor = own};
  return mask == kNoValue ? AttentionMask() : ReadMask(bound, mask);
}

// Whether one head of values is for all of q, as products broadcast it: no copies of it are made.
// TorchScript's exporter refuses enable_gqa.
// Source: symbolic_opset14.py, "not implemented if enable_gqa is True", pytorch v2.11.0.
bool BroadcastsHeads(const BoundGraph& bound, NodeId last, ValueId q, ValueId value) {
  const std::optional<SaidAttention> said = SaidOf(bound, last);
  if (said.has_value() ? said->is_grouped : !IsNamedByTorchScript(bound.At(last))) return false;
  const Dims& of_q = bound.DimsOf(q);
  const Dims& of_value = bound.DimsOf(value);
  const bool have_heads = of_q.size() == 4 && of_value.size() == 4;
  return have_heads && of_value[1] == 1 && of_q[1] > 1;
}

Rewritten MakeCall(const BoundGraph& bound, NodeId last, const Dims& scores, AttentionParts parts) {
  const std::optional<SaidAttention> said = SaidOf(bound, last);
  const AttentionMask mask = MaskOfCall(bound, said, last, parts.mask);
  if (said.has_value() && said->drops_out) parts.dropout = parts.softmax;  // for want of a Dropout
  std::reverse(parts.nodes.begin(), parts.nodes.end());
  parts.nodes.push_back(last);
  Rewritten call = {.aten = "scaled_dot_product_attention",
                    .inputs = {parts.q, parts.key, bound.At(last).inputs[1], mask.tensor},
                    .last = last,
                    .nodes = parts.nodes,
                    .ints = {0, mask.causal && mask.tensor == kNoValue ? 1 : 0},
                    .dropout = parts.dropout};
  if (BroadcastsHeads(bound, last, call.inputs[0], call.inputs[2])) call.ints.push_back(1);
  const bool has_mask = mask.tensor != kNoValue || mask.causal;
  if (parts.mask != kNoValue && !has_mask) {
    call.ints.resize(3);
    call.ints.push_back(1);
  }
  if (!parts.key_perm.empty()) call.before.push_back(KeyTranspose(bound, parts));
  if (!parts.key_view.empty()) call.before.push_back(KeyView(bound, parts));
  if (!said.has_value() && IsNamedByTorchScript(bound.At(last))) {
    const bool copies_heads = CopiesHeads(bound, parts.q, parts.key);
    for (const int input : {0, 1, 2}) {
      CopyTransposed(bound, input, copies_heads && input == kKeyInput, call);
    }
  }
  if (mask.causal && mask.tensor != kNoValue) AddMaskedBias(bound, mask.tensor, scores, call);
  return call;
}

}  // namespace

std::optional<Rewritten> FindZeroBias(const BoundGraph& bound, NodeId last) {
  const ValueId zeros = bound.At(last).outputs[0];
  const bool is_bias = IsFloat(bound.TypeOf(zeros).dtype) && bound.DimsOf(zeros).size() == 4;
  if (!is_bias || bound.NumberOf(zeros) != 0 || bound.ReadersOf(zeros).empty()) {
    return std::nullopt;
  }
  for (const NodeId reader : bound.ReadersOf(zeros)) {
    const ValueId masked = bound.At(reader).outputs[0];
    if (ReadMask(bound, masked).tensor != zeros) return std::nullopt;
    for (const NodeId add : bound.ReadersOf(masked)) {
      if (bound.InnerSide(bound.At(add), "MatMul") > 1) return std::nullopt;
    }
  }
  return Rewritten{
      .aten = "constant", .inputs = {}, .last = last, .nodes = {last}, .in_compute_type = true};
}

std::optional<Rewritten> FindAttention(const BoundGraph& bound, NodeId last) {
  AttentionParts parts;
  const std::vector<ValueId>& inputs = bound.At(last).inputs;
  ValueId weights = StepOver(bound, inputs[0], "Dropout", parts);
  weights = StepOverGuard(bound, weights, parts);
  const NodeId softmax = InnerSoftmax(bound, weights, parts);
  if (softmax == kNoNode) return std::nullopt;
  parts.nodes.push_back(softmax);
  parts.softmax = softmax;
  const ValueId scores = bound.At(softmax).inputs[0];
  const NodeId product = FindScores(bound, scores, parts);
  if (product == kNoNode) return std::nullopt;
  parts.nodes.push_back(product);
  if (!FindFactors(bound, product, parts)) return std::nullopt;
  return MakeCall(bound, last, bound.DimsOf(scores), std::move(parts));
}

}  // namespace onnxfit
