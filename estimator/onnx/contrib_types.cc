// The types of what ONNX Runtime's operators make.
#include <algorithm>
#include <iterator>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/contrib_operators.h"

namespace onnxfit {
namespace {

// --- What many rows do ------------------------------------------------------------

ContribTypes LikeFirst(const ContribCall& call) { return {call.in(0)}; }

ContribTypes LikeFirstAndMask(const ContribCall& call) {
  return {call.in(0), {DType::kBool, call.in(0).dims}};
}

// The sum that is normalized is the last output; mean and deviation have one number a row.
ContribTypes LikeSkipNorm(const ContribCall& call) {
  TensorType rows{DType::kFloat32, call.in(0).dims};
  if (!rows.dims.empty()) rows.dims.back() = 1;
  return {call.in(0), rows, rows, call.in(0)};
}

ContribTypes LikeHalf(const ContribCall& call) {
  TensorType half = call.in(0);
  if (half.dims.empty()) return {};
  half.dims.back() /= 2;
  return {half};
}

// --- Products -----------------------------------------------------------------------

// Leading dimensions, broadcast; nullopt where they contradict each other.
std::optional<Dims> CommonDims(Dims a, Dims b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& left = a[a.size() - b.size() + i];
    if (left == 1) left = b[i];
    if (b[i] != 1 && b[i] != left) return std::nullopt;
  }
  return a;
}

// [..., m, k] x [..., k, n].
std::optional<Dims> ProductDims(Dims a, Dims b) {
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) return std::nullopt;
  const int64_t m = a[a.size() - 2];
  const int64_t n = b.back();
  auto dims = CommonDims({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (dims.has_value()) dims->insert(dims->end(), {m, n});
  return dims;
}

Dims TurnedDims(Dims dims, bool batch, bool last) {
  if (dims.size() < 2) return dims;
  if (batch) std::rotate(dims.begin(), dims.begin() + 1, dims.end() - 1);
  if (last) std::swap(dims[dims.size() - 2], dims.back());
  return dims;
}

ContribTypes OfFusedMatMul(const ContribCall& call) {
  const auto is_set = [&](const char* name) { return IntAttribute(*call.node, name, 0) != 0; };
  const auto dims =
      ProductDims(TurnedDims(call.in(0).dims, is_set("transBatchA"), is_set("transA")),
                  TurnedDims(call.in(1).dims, is_set("transBatchB"), is_set("transB")));
  return dims.has_value() ? ContribTypes{{call.in(0).dtype, *dims}} : ContribTypes{};
}

// Of quantized operands, the result in float32.
ContribTypes OfQuantizedMatMul(const ContribCall& call) {
  const auto dims = ProductDims(call.in(0).dims, call.in(1).dims);
  return dims.has_value() ? ContribTypes{{DType::kFloat32, *dims}} : ContribTypes{};
}

ContribTypes OfMatMulNBits(const ContribCall& call) {
  TensorType type = call.in(0);
  if (type.dims.empty()) return {};
  type.dims.back() = IntAttribute(*call.node, "N", 0);
  return {type};
}

ContribTypes OfFusedGemm(const ContribCall& call) {
  const auto is_set = [&](const char* name) { return IntAttribute(*call.node, name, 0) != 0; };
  const auto dims = ProductDims(TurnedDims(call.in(0).dims, false, is_set("transA")),
                                TurnedDims(call.in(1).dims, false, is_set("transB")));
  return dims.has_value() ? ContribTypes{{call.in(0).dtype, *dims}} : ContribTypes{};
}

// --- Convolutions ---------------------------------------------------------------------

std::vector<int64_t> Ints(const onnx::NodeProto& node, const char* name, size_t count,
                          int64_t absent) {
  const onnx::AttributeProto* written = FindAttribute(node, name);
  std::vector<int64_t> ints(count, absent);
  if (written == nullptr || written->ints_size() != static_cast<int>(count)) return ints;
  ints.assign(written->ints().begin(), written->ints().end());
  return ints;
}

bool PadsAlike(const onnx::NodeProto& node) {
  const onnx::AttributeProto* written = FindAttribute(node, "auto_pad");
  return written != nullptr && written->s().starts_with("SAME");
}

// Sizes that a file makes up are no reason to overflow.
bool AreSizes(const std::vector<int64_t>& ints) {
  return std::ranges::all_of(ints, [](int64_t i) { return i >= 0 && i < int64_t{1} << 31; });
}

// Channels first.  Empty where the window is larger than the picture.
Dims ConvDims(const onnx::NodeProto& node, const Dims& in, const Dims& weight) {
  const size_t spatial = in.size() - 2;
  const auto strides = Ints(node, "strides", spatial, 1);
  const auto dilations = Ints(node, "dilations", spatial, 1);
  const auto pads = Ints(node, "pads", 2 * spatial, 0);
  for (const std::vector<int64_t>& ints : {strides, dilations, pads, in, weight}) {
    if (!AreSizes(ints)) return {};
  }
  Dims dims = {in[0], weight[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t stride = std::max<int64_t>(strides[i], 1);
    const int64_t window = (weight[i + 2] - 1) * dilations[i] + 1;
    const int64_t room = in[i + 2] + pads[i] + pads[i + spatial] - window;
    const int64_t same = (in[i + 2] + stride - 1) / stride;
    if (room < 0 && !PadsAlike(node)) return {};
    dims.push_back(PadsAlike(node) ? same : room / stride + 1);
  }
  return dims;
}

ContribTypes OfFusedConv(const ContribCall& call) {
  const Dims& in = call.in(0).dims;
  const Dims& weight = call.in(1).dims;
  if (in.size() < 3 || in.size() != weight.size()) return {};
  Dims dims = ConvDims(*call.node, in, weight);
  return dims.empty() ? ContribTypes{} : ContribTypes{{call.in(0).dtype, std::move(dims)}};
}

// Channels last, in and out.
ContribTypes OfNhwcConv(const ContribCall& call) {
  Dims in = call.in(0).dims;
  const Dims& weight = call.in(1).dims;
  if (in.size() < 3 || in.size() != weight.size()) return {};
  std::rotate(in.begin() + 1, in.end() - 1, in.end());
  Dims dims = ConvDims(*call.node, in, weight);
  if (dims.empty()) return {};
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return {{call.in(0).dtype, std::move(dims)}};
}

// --- Transformers -----------------------------------------------------------------------

// Ids, segments, tables of words, positions and segments: the norm, a mask's length, the sum.
ContribTypes OfEmbedLayerNorm(const ContribCall& call) {
  const Dims& ids = call.in(0).dims;
  if (!call.has(2) || ids.size() != 2 || call.in(2).dims.size() != 2) return {};
  const TensorType made{call.in(2).dtype, {ids[0], ids[1], call.in(2).dims[1]}};
  return {made, {DType::kInt32, {ids[0]}}, made};
}

int64_t HeadsOf(const ContribCall& call, const char* name, int64_t absent) {
  constexpr int64_t kMostHeads = 1 << 20;
  return std::clamp<int64_t>(IntAttribute(*call.node, name, absent), 1, kMostHeads);
}

// What a packed projection has for v.
int64_t ValueSize(const ContribCall& call) {
  const onnx::AttributeProto* sizes = FindAttribute(*call.node, "qkv_hidden_sizes");
  return sizes != nullptr && sizes->ints_size() == 3 ? sizes->ints(2) : call.in(1).dims.back() / 3;
}

ContribTypes OfAttention(const ContribCall& call) {
  const Dims& x = call.in(0).dims;
  if (x.size() != 3 || call.in(1).dims.size() != 2) return {};
  const int64_t heads = HeadsOf(call, "num_heads", 1);
  const int64_t size = ValueSize(call);
  const bool has_past = call.has(4) && call.in(4).dims.size() == 5;
  const int64_t keys = CheckedAdd(x[1], has_past ? call.in(4).dims[3] : 0);
  return {{call.in(0).dtype, {x[0], x[1], size}},
          {call.in(0).dtype, {2, x[0], heads, keys, size / heads}}};
}

// Query, key and value apart, [B, S, N·H], or packed, [B, S, N, 3, H].
ContribTypes OfMultiHeadAttention(const ContribCall& call) {
  const Dims& q = call.in(0).dims;
  const DType dtype = call.in(0).dtype;
  if (q.size() == 5) return {{dtype, {q[0], q[1], CheckedMul(q[2], q[4])}}};
  if (q.size() != 3) return {};
  const int64_t heads = HeadsOf(call, "num_heads", 1);
  if (!call.has(2)) return {{dtype, q}};
  const Dims& v = call.in(2).dims;
  const bool apart = v.size() == 4;  // [B, N, L, H]
  if (!apart && v.size() != 3) return {};
  const int64_t head = apart ? v[3] : v[2] / heads;
  const int64_t past = call.has(6) && call.in(6).dims.size() == 4 ? call.in(6).dims[2] : 0;
  const Dims present = {q[0], heads, CheckedAdd(past, apart ? v[2] : v[1]), head};
  return {{dtype, {q[0], q[1], CheckedMul(heads, head)}}, {dtype, present}, {dtype, present}};
}

// Query [B, S, N·H], or with key and value packed behind it; past_key [B, kv, P, H].
ContribTypes OfGroupQueryAttention(const ContribCall& call) {
  const Dims& q = call.in(0).dims;
  if (q.size() != 3) return {};
  const int64_t heads = HeadsOf(call, "num_heads", 1);
  const int64_t kv_heads = HeadsOf(call, "kv_num_heads", heads);
  const int64_t head = call.has(1) ? q[2] / heads : q[2] / (heads + 2 * kv_heads);
  const bool has_past = call.has(3) && call.in(3).dims.size() == 4;
  const int64_t keys = std::max(q[1], has_past ? call.in(3).dims[2] : 0);
  const TensorType present{call.in(0).dtype, {q[0], kv_heads, keys, head}};
  return {{call.in(0).dtype, {q[0], q[1], CheckedMul(heads, head)}}, present, present};
}

// Weight [rows, D], indices, offsets: a sum for each bag (exported_bags.cc).
ContribTypes OfEmbeddingBag(const ContribCall& call) {
  const Dims& weight = call.in(0).dims;
  const Dims& offsets = call.in(2).dims;
  if (weight.size() != 2 || offsets.size() != 1) return {};
  const int64_t bags = offsets[0] - IntAttribute(*call.node, "include_last_offset", 0);
  return bags < 0 ? ContribTypes{} : ContribTypes{{call.in(0).dtype, {bags, weight[1]}}};
}

// --- Quantized ----------------------------------------------------------------------------

// Numbers, scale and zero point of each operand, then of the result: that is of their type.
ContribTypes OfQuantizedPair(const ContribCall& call) {
  const auto dims = CommonDims(call.in(0).dims, call.in(3).dims);
  return dims.has_value() ? ContribTypes{{call.in(0).dtype, *dims}} : ContribTypes{};
}

// Of float32 where no scale of the result is given.
ContribTypes OfQuantizedGemm(const ContribCall& call) {
  const auto is_set = [&](const char* name) { return IntAttribute(*call.node, name, 0) != 0; };
  const auto dims = ProductDims(TurnedDims(call.in(0).dims, false, is_set("transA")),
                                TurnedDims(call.in(3).dims, false, is_set("transB")));
  const DType dtype = call.has(7) ? call.in(0).dtype : DType::kFloat32;
  return dims.has_value() ? ContribTypes{{dtype, *dims}} : ContribTypes{};
}

// Scale and zero point of the result, then those of each part behind it.
ContribTypes OfQuantizedConcat(const ContribCall& call) {
  if (!call.has(2) || call.in(2).dims.empty()) return {};
  TensorType type = call.in(2);
  const auto rank = static_cast<int64_t>(type.dims.size());
  const int64_t axis = IntAttribute(*call.node, "axis", 0);
  const int64_t place = axis < 0 ? axis + rank : axis;
  if (place < 0 || place >= rank) return {};
  for (size_t i = 5; i < call.inputs.size(); i += 3) {
    if (!call.has(i) || call.in(i).dims.size() != type.dims.size()) return {};
    int64_t& size = type.dims[static_cast<size_t>(place)];
    size = CheckedAdd(size, call.in(i).dims[static_cast<size_t>(place)]);
  }
  return {type};
}

// Channels first: one number of each.
ContribTypes OfQuantizedGlobalPool(const ContribCall& call) {
  TensorType type = call.in(0);
  if (type.dims.size() < 3) return {};
  const bool is_last = IntAttribute(*call.node, "channels_last", 0) != 0;
  for (size_t i = is_last ? 1 : 2; i + (is_last ? 1 : 0) < type.dims.size(); ++i) type.dims[i] = 1;
  return {type};
}

// x, the packed weights of q, k and v, bias, scales and zero points: as Attention, in float32.
ContribTypes OfQuantizedAttention(const ContribCall& call) {
  const Dims& x = call.in(0).dims;
  if (x.size() != 3 || call.in(1).dims.size() != 2) return {};
  return {{DType::kFloat32, {x[0], x[1], call.in(1).dims.back() / 3}}};
}

// Inputs and outputs as ONNX Runtime's docs/ContribOperators.md (1.23) has them.
constexpr ContribRow kContribRows[] = {
    {"Gelu", 1, LikeFirst},
    {"FastGelu", 1, LikeFirst},
    {"BiasGelu", 2, LikeFirst},
    {"QuickGelu", 1, LikeFirst},
    {"BiasSplitGelu", 2, LikeHalf},
    {"BiasAdd", 3, LikeFirst},
    {"BiasSoftmax", 2, LikeFirst},
    {"BiasDropout", 2, LikeFirstAndMask},
    {"BitmaskDropout", 1, LikeFirst},
    {"BitmaskBiasDropout", 2, LikeFirst},
    {"LayerNormalization", 2, LikeFirst},
    {"SimplifiedLayerNormalization", 2, LikeFirst},
    {"SkipLayerNormalization", 3, LikeSkipNorm},
    {"SkipSimplifiedLayerNormalization", 3, LikeSkipNorm},
    {"GroupNorm", 3, LikeFirst},
    {"SkipGroupNorm", 4, LikeFirst},
    {"RotaryEmbedding", 4, LikeFirst},
    {"EmbedLayerNormalization", 1, OfEmbedLayerNorm},
    {"Attention", 2, OfAttention},
    {"MultiHeadAttention", 1, OfMultiHeadAttention},
    {"GroupQueryAttention", 1, OfGroupQueryAttention},
    {"FusedMatMul", 2, OfFusedMatMul},
    {"TransposeMatMul", 2, OfFusedMatMul},
    {"FusedGemm", 2, OfFusedGemm},
    {"GemmFastGelu", 2, OfFusedGemm},
    {"MatMulNBits", 3, OfMatMulNBits},
    {"DynamicQuantizeMatMul", 3, OfQuantizedMatMul},
    {"MatMulIntegerToFloat", 4, OfQuantizedMatMul},
    {"QAttention", 2, OfQuantizedAttention},
    {"QGemm", 6, OfQuantizedGemm},
    {"QLinearAdd", 7, OfQuantizedPair},
    {"QLinearMul", 7, OfQuantizedPair},
    {"QLinearConcat", 5, OfQuantizedConcat},
    {"QLinearGlobalAveragePool", 5, OfQuantizedGlobalPool},
    {"QLinearLeakyRelu", 4, LikeFirst},
    {"QLinearSigmoid", 4, LikeFirst},
    {"QLinearSoftmax", 4, LikeFirst},
    {"FusedConv", 2, OfFusedConv},
    {"NhwcConv", 2, OfNhwcConv},
    {"NhwcFusedConv", 2, OfNhwcConv},
};

}  // namespace

const ContribRow* FindContrib(std::string_view domain, std::string_view op_type) {
  static constexpr ContribRow kBag = {"EmbeddingBag", 3, OfEmbeddingBag};
  if (domain == kOwnDomain) return op_type == kBag.op_type ? &kBag : nullptr;
  const auto* const row = std::ranges::find(kContribRows, op_type, &ContribRow::op_type);
  if (row == std::end(kContribRows)) return nullptr;
  const bool is_norm = row->types == LikeFirst && op_type.ends_with("LayerNormalization");
  return domain == "com.microsoft" || (domain.empty() && is_norm) ? row : nullptr;
}

}  // namespace onnxfit
