// Operators that optimizers of files, and opset 23, make of what PyTorch runs as several
// calls: ONNX Runtime's (com.microsoft) and ONNX's own.  Their parts are those of the modules
// that such files come from; a projection of q, k and v that an optimizer has packed stays one.
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/lowering.h"

namespace onnxfit {
namespace {

// The calls that one node becomes.
class FusedParts {
 public:
  FusedParts(UnitWriter& unit, const Node& node) : unit_(unit), node_(node) {
    result_ = unit.WithPrecision(unit.TypeOf(node.outputs[0]));
  }

  bool Has(size_t input) const {
    return input < node_.inputs.size() && node_.inputs[input] != kNoValue &&
           !unit_.values().IsHost(node_.inputs[input]);
  }
  NameId In(size_t input) { return unit_.TensorOf(node_.inputs[input]); }
  const Dims& DimsIn(size_t input) const { return unit_.TypeOf(node_.inputs[input]).dims; }
  const Dims& result() const { return result_.dims; }

  NameId Make(std::string_view op, std::vector<NameId> inputs, const Dims& dims,
              std::vector<int64_t> ints = {}) {
    const std::string name =
        std::string(unit_.graph().values[Index(node_.outputs[0])].name) + "." + std::string(op);
    return unit_.Make(op, std::move(inputs), name, {result_.dtype, dims}, std::move(ints));
  }
  void Finish(std::string_view op, std::vector<NameId> inputs, std::vector<int64_t> ints = {}) {
    unit_.Emit(op, std::move(inputs), {unit_.NewResult(node_.outputs[0])}, std::move(ints));
  }

 private:
  UnitWriter& unit_;
  const Node& node_;
  TensorType result_;
};

// gelu (x + bias), the bias being there or not.
void LowerBiasGelu(UnitWriter& unit, const Node& node, std::string_view aten) {
  FusedParts parts(unit, node);
  NameId x = parts.In(0);
  if (parts.Has(1)) x = parts.Make("add", {x, parts.In(1)}, parts.result());
  parts.Finish(aten, {x});
}

void LowerEmbeddingBag(UnitWriter& unit, const Node& node, std::string_view aten) {
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) inputs.push_back(unit.TensorOf(value));
  unit.Emit(aten, std::move(inputs), {unit.NewResult(node.outputs[0])},
            {IntAttribute(node, "mode", 0)});
}

// x * sigmoid (1.702 * x), as transformers writes it.
void LowerQuickGelu(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const NameId x = parts.In(0);
  const NameId scaled = parts.Make("mul.Scalar", {x}, parts.result());
  const NameId gate = parts.Make("sigmoid", {scaled}, parts.result());
  parts.Finish("mul", {x, gate});
}

// A group norm of a picture with its channels last, then SiLU where the node has it.
void LowerGroupNorm(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const Dims& dims = parts.result();
  const bool is_last = dims.size() == 4 && IntAttribute(node, "channels_last", 1) != 0;
  const Dims first = is_last ? Dims{dims[0], dims[3], dims[1], dims[2]} : dims;
  NameId x = parts.In(0);
  if (is_last) x = parts.Make("permute", {x}, first, {0, 3, 1, 2});
  const std::vector<int64_t> groups = {IntAttribute(node, "groups", 1)};
  x = parts.Make("group_norm", {x, parts.In(1), parts.In(2)}, first, groups);
  if (IntAttribute(node, "activation", 0) == 1) x = parts.Make("silu", {x}, first);
  if (is_last) return parts.Finish("permute", {x}, {0, 2, 3, 1});
  parts.Finish("view", {x});
}

// weight * (x * rsqrt (mean (x ** 2) + ε)), which PyTorch's models write so.
void LowerRmsNorm(FusedParts& parts, NameId x, NameId weight, const Dims& dims) {
  Dims rows = dims;
  if (!rows.empty()) rows.back() = 1;
  const NameId square = parts.Make("pow.Tensor_Scalar", {x}, dims);
  const NameId mean = parts.Make("mean", {square}, rows);
  const NameId shifted = parts.Make("add.Scalar", {mean}, rows);
  const NameId root = parts.Make("rsqrt", {shifted}, rows);
  const NameId normed = parts.Make("mul", {x, root}, dims);
  parts.Finish("mul", {weight, normed});
}

void LowerRmsNormalization(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  LowerRmsNorm(parts, parts.In(0), parts.In(1), parts.result());
}

// x + skip (+ bias), which a later node may read, too (output 3), and its norm.
NameId SumOf(UnitWriter& unit, const Node& node, FusedParts& parts, size_t bias) {
  NameId sum = parts.Make("add", {parts.In(0), parts.In(1)}, parts.result());
  if (parts.Has(bias)) sum = parts.Make("add", {sum, parts.In(bias)}, parts.result());
  if (node.outputs.size() > 3) unit.values().Bind(node.outputs[3], sum);
  return sum;
}

void LowerSkipLayerNorm(UnitWriter& unit, const Node& node, std::string_view aten) {
  FusedParts parts(unit, node);
  const NameId sum = SumOf(unit, node, parts, 4);
  std::vector<NameId> inputs = {sum, parts.In(2)};
  if (parts.Has(3)) inputs.push_back(parts.In(3));
  parts.Finish(aten, std::move(inputs));
}

void LowerSkipRmsNorm(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const NameId sum = SumOf(unit, node, parts, 3);
  LowerRmsNorm(parts, sum, parts.In(2), parts.result());
}

// The two summands of x * cos + rotate_half (x) * sin.
std::vector<NameId> Rotated(FusedParts& parts, NameId x, const Dims& dims) {
  Dims half = dims;
  if (!half.empty()) half.back() /= 2;
  const NameId straight = parts.Make("mul.Scalar", {x}, dims);
  const NameId left = parts.Make("slice", {x}, half);
  const NameId right = parts.Make("slice", {x}, half);
  const NameId negated = parts.Make("neg", {right}, half);
  const NameId turned = parts.Make("cat", {negated, left}, dims);
  return {straight, parts.Make("mul.Scalar", {turned}, dims)};
}

void LowerRotary(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  parts.Finish("add", Rotated(parts, parts.In(0), parts.result()));
}

// [B, S, H·D] as [B, H, S, D]; what has four dimensions is so already.
NameId AsHeads(FusedParts& parts, NameId x, const Dims& dims, int64_t heads) {
  if (dims.size() != 3 || heads <= 0) return x;
  const Dims apart = {dims[0], dims[1], heads, dims[2] / heads};
  const NameId viewed = parts.Make("view", {x}, apart);
  return parts.Make("permute", {viewed}, {dims[0], heads, dims[1], apart[3]}, {0, 2, 1, 3});
}

struct Heads {
  NameId x = kNoName;
  Dims dims;
  int64_t count = 0;
};

// Attention of q, k and v, its result as [B, S, H·D] where they are that.
void Attend(FusedParts& parts, const Heads& q, const Heads& k, const Heads& v, NameId mask,
            bool is_causal) {
  const std::vector<int64_t> ints = {0, is_causal ? 1 : 0};
  const std::vector<NameId> inputs = {AsHeads(parts, q.x, q.dims, q.count),
                                      AsHeads(parts, k.x, k.dims, k.count),
                                      AsHeads(parts, v.x, v.dims, v.count), mask};
  const Dims& r = parts.result();
  if (q.dims.size() != 3 || r.size() != 3 || q.count <= 0) {
    return parts.Finish("scaled_dot_product_attention", inputs, ints);
  }
  const Dims apart = {r[0], q.count, r[1], r[2] / q.count};
  const NameId made = parts.Make("scaled_dot_product_attention", inputs, apart, ints);
  const NameId turned =
      parts.Make("permute", {made}, {apart[0], apart[2], apart[1], apart[3]}, {0, 2, 1, 3});
  parts.Finish("view", {turned});
}

// ONNX's, opset 23: q, k, v, mask.
void LowerAttention(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const int64_t q_heads = IntAttribute(node, "q_num_heads", 0);
  const int64_t kv_heads = IntAttribute(node, "kv_num_heads", 0);
  Attend(parts, {parts.In(0), parts.DimsIn(0), q_heads}, {parts.In(1), parts.DimsIn(1), kv_heads},
         {parts.In(2), parts.DimsIn(2), kv_heads}, parts.Has(3) ? parts.In(3) : kNoName,
         IntAttribute(node, "is_causal", 0) == 1);
}

// com.microsoft: query, key, value, each [B, S, H·D]; packed in the first, where it is alone.
void LowerMultiHeadAttention(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  if (!parts.Has(1) || !parts.Has(2)) {
    const Heads packed = {parts.In(0), parts.DimsIn(0), 0};
    return Attend(parts, packed, packed, packed, kNoName, false);
  }
  Attend(parts, {parts.In(0), parts.DimsIn(0), heads}, {parts.In(1), parts.DimsIn(1), heads},
         {parts.In(2), parts.DimsIn(2), heads}, kNoName,
         IntAttribute(node, "unidirectional", 0) == 1);
}

// com.microsoft: x [B, S, D], the packed weight [D, 3·D] and its bias.
void LowerPackedAttention(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  Dims packed = parts.DimsIn(0);
  const Dims part = packed;
  packed.back() = parts.DimsIn(1).back();
  std::vector<NameId> inputs = {parts.In(0), parts.In(1)};
  if (parts.Has(2)) inputs.push_back(parts.In(2));
  const NameId projected = parts.Make("linear", std::move(inputs), packed);
  std::vector<Heads> heads_of;
  for (int i = 0; i < 3; ++i) {
    heads_of.push_back({parts.Make("slice", {projected}, part), part, heads});
  }
  Attend(parts, heads_of[0], heads_of[1], heads_of[2], kNoName,
         IntAttribute(node, "unidirectional", 0) == 1);
}

// q, k or v of a node whose heads share keys, as [B, H, S, D], turned by its position or not.
Heads GroupedHeads(FusedParts& parts, NameId x, const Dims& dims, int64_t heads, bool turns) {
  const Dims apart = {dims[0], heads, dims[1], dims[2] / heads};
  x = AsHeads(parts, x, dims, heads);
  if (turns) x = parts.Make("add", Rotated(parts, x, apart), apart);
  return {x, apart, heads};
}

// com.microsoft: query, key, value, each [B, S, H·D]; packed in the first, where it is alone.
void LowerGroupQueryAttention(UnitWriter& unit, const Node& node, std::string_view) {
  FusedParts parts(unit, node);
  const Dims& r = parts.result();
  if (r.size() != 3) return unit.LowerUnknown(node);
  const int64_t heads = std::clamp<int64_t>(IntAttribute(node, "num_heads", 1), 1, 1 << 20);
  const int64_t shared = std::clamp<int64_t>(IntAttribute(node, "kv_num_heads", heads), 1, 1 << 20);
  const bool turns = IntAttribute(node, "do_rotary", 0) == 1;
  const Dims q_dims = r;
  const Dims kv_dims = {r[0], r[1], r[2] / heads * shared};
  const bool is_packed = !parts.Has(1) || !parts.Has(2);
  std::vector<NameId> made;
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}}) {
    made.push_back(is_packed ? parts.Make("slice", {parts.In(0)}, i == 0 ? q_dims : kv_dims)
                             : parts.In(i));
  }
  const Heads q = GroupedHeads(parts, made[0], q_dims, heads, turns);
  const Heads k = GroupedHeads(parts, made[1], kv_dims, shared, turns);
  const Heads v = GroupedHeads(parts, made[2], kv_dims, shared, false);
  const NameId attended =
      parts.Make("scaled_dot_product_attention", {q.x, k.x, v.x, kNoName}, q.dims, {0, 1});
  const Dims back = {q.dims[0], q.dims[2], q.dims[1], q.dims[3]};
  const NameId turned = parts.Make("permute", {attended}, back, {0, 2, 1, 3});
  parts.Finish("view", {turned});
}

using Ranks = std::array<int8_t, 4>;
constexpr Ranks kOne = {kAnyRank, kOptional, kOptional, kOptional};
constexpr Ranks kTwo = {kAnyRank, kAnyRank, kOptional, kOptional};
constexpr Ranks kThree = {kAnyRank, kAnyRank, kAnyRank, kOptional};
constexpr Ranks kGrouped = {3, kOptional, kOptional, kOptional};
constexpr Ranks kPacked = {3, 2, kOptional, kOptional};

constexpr LoweringRow kFusedRows[] = {
    {"com.microsoft.Gelu", "gelu", LowerBiasGelu, "", "", kOne},
    {"com.microsoft.FastGelu", "gelu", LowerBiasGelu, "", "", kOne},
    {"com.microsoft.BiasGelu", "gelu", LowerBiasGelu, "", "", kOne},
    {"com.microsoft.QuickGelu", "", LowerQuickGelu, "", "", kOne},
    {"pkg.onnxfit.EmbeddingBag", "embedding_bag", LowerEmbeddingBag, "", "", kThree},
    {"com.microsoft.GroupNorm", "", LowerGroupNorm, "", "", kThree},
    {"com.microsoft.GroupQueryAttention", "", LowerGroupQueryAttention, "", "", kGrouped},
    {"com.microsoft.SimplifiedLayerNormalization", "", LowerRmsNormalization, "", "", kTwo},
    {"com.microsoft.LayerNormalization", "layer_norm", LowerAll, "", "", kTwo},
    {"com.microsoft.SkipLayerNormalization", "layer_norm", LowerSkipLayerNorm, "", "", kThree},
    {"com.microsoft.SkipSimplifiedLayerNormalization", "", LowerSkipRmsNorm, "", "", kThree},
    {"com.microsoft.RotaryEmbedding", "", LowerRotary, "", "", kOne},
    {"com.microsoft.MultiHeadAttention", "", LowerMultiHeadAttention, "", "", kOne},
    {"com.microsoft.Attention", "", LowerPackedAttention, "", "", kPacked},
    {"SimplifiedLayerNormalization", "", LowerRmsNormalization, "", "", kTwo},
    {"RMSNormalization", "", LowerRmsNormalization, "", "", kTwo},
    {"RotaryEmbedding", "", LowerRotary, "", "", kOne},
    {"Attention", "", LowerAttention, "", "", kThree},
};

}  // namespace

const LoweringRow* FindFusedLowering(std::string_view op_type) {
  const auto* const found = std::ranges::find(kFusedRows, op_type, &LoweringRow::op_type);
  return found == std::end(kFusedRows) ? nullptr : found;
}

}  // namespace onnxfit
