#include "estimator/program/call_operands.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "estimator/program/like.h"

namespace onnxfit {
namespace {

const Dims& In(const CallOperands& call, size_t i) { return *call.inputs[i]; }
const Dims& Out(const CallOperands& call) { return *call.outputs[0]; }
bool Has(const CallOperands& call, size_t i) {
  return i < call.inputs.size() && call.inputs[i] != nullptr;
}

bool BroadcastsTo(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  const size_t added = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[i + added]) return false;
  }
  return true;
}

// --- What is asked of an operator's sizes ---------------------------------------------------

bool IsAnything(const CallOperands&) { return true; }

bool AllBroadcast(const CallOperands& call) {
  return std::ranges::all_of(call.inputs, [&](const Dims* input) {
    return input == nullptr || BroadcastsTo(*input, Out(call));
  });
}

// A weight for each channel may be a list.
bool IsActivatedByWeight(const CallOperands& call) {
  const Dims& weight = In(call, 1);
  const bool is_list = weight.size() == 1 && Out(call).size() > 1 && weight[0] == Out(call)[1];
  return is_list ? In(call, 0) == Out(call) : AllBroadcast(call);
}

bool IsLikeFirst(const CallOperands& call) { return In(call, 0) == Out(call); }

bool HasAsMany(const CallOperands& call) { return Numel(In(call, 0)) == Numel(Out(call)); }

bool IsExpanded(const CallOperands& call) { return BroadcastsTo(In(call, 0), Out(call)); }

bool IsPermuted(const CallOperands& call) {
  const Dims& dims = In(call, 0);
  if (call.ints.size() != dims.size() || Out(call).size() != dims.size()) return false;
  std::vector<bool> seen(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto axis = static_cast<size_t>(call.ints[i]);
    if (axis >= dims.size() || seen[axis] || Out(call)[i] != dims[axis]) return false;
    seen[axis] = true;
  }
  return true;
}

// ints: the axis of a selection, which has a dimension less, or axis and step of a slice.
bool IsPart(const CallOperands& call) {
  const Dims& dims = In(call, 0);
  if (call.ints.empty()) return true;
  if (static_cast<size_t>(call.ints[0]) >= dims.size()) return false;
  return std::ranges::all_of(call.outputs, [&](const Dims* output) {
    return output == nullptr || output->size() == dims.size() || output->size() + 1 == dims.size();
  });
}

// ints: dimension, size and step.
bool HasWindows(const CallOperands& call) {
  return call.ints.size() == 3 && Out(call).size() == In(call, 0).size() + 1 &&
         static_cast<size_t>(call.ints[0]) <= In(call, 0).size();
}

// ints: two dimensions of `of`.
bool HasAxes(const CallOperands& call, const Dims& of) {
  return call.ints.size() == 2 && call.ints[0] != call.ints[1] &&
         std::ranges::all_of(call.ints,
                             [&](int64_t axis) { return static_cast<size_t>(axis) < of.size(); });
}
bool HasDiagonal(const CallOperands& call) {
  return HasAxes(call, In(call, 0)) && Out(call).size() + 1 == In(call, 0).size();
}
bool IsOnDiagonal(const CallOperands& call) {
  return HasAxes(call, Out(call)) && In(call, 0).size() + 1 == Out(call).size();
}

bool AreJoined(const CallOperands& call) {
  return std::ranges::all_of(call.inputs, [&](const Dims* input) {
    return input == nullptr || input->size() == Out(call).size();
  });
}

bool HasDims(const CallOperands& call) { return !In(call, 0).empty(); }
bool HasChannels(const CallOperands& call) { return In(call, 0).size() > 1; }

// weight [N, K] or, as some exporters store it, [K, N].
bool IsLinear(const CallOperands& call) {
  const Dims& x = In(call, 0);
  const Dims& weight = In(call, 1);
  return !x.empty() && weight.size() == 2 && !Out(call).empty() &&
         (x.back() == weight[0] || x.back() == weight[1]);
}

bool IsProduct(const CallOperands& call) {
  const Dims& a = In(call, 0);
  const Dims& b = In(call, 1);
  if (a.empty() || b.empty()) return false;
  if (a.size() < 2 || b.size() < 2) return true;
  return a.back() == b.end()[-2] && Out(call).size() == std::max(a.size(), b.size());
}

bool AreMatrices(const CallOperands& call) {
  return Out(call).size() == 2 &&
         std::all_of(call.inputs.end() - 2, call.inputs.end(),
                     [](const Dims* input) { return input != nullptr && input->size() == 2; });
}

bool IsConvolution(const CallOperands& call) {
  const size_t rank = In(call, 0).size();
  return rank > 1 && In(call, 1).size() == rank && Out(call).size() == rank;
}

bool IsTable(const CallOperands& call) { return In(call, 0).size() == 2; }

// key [B, S, D], query, its mask, what is expected [B, Q, S], value [B, S, D].
bool IsCumulation(const CallOperands& call) {
  return std::ranges::all_of(std::array<size_t, 4>{0, 1, 3, 4},
                             [&](size_t i) { return In(call, i).size() == 3; }) &&
         Out(call).size() == 3;
}

// Four factors, their product and the result.
bool AreFactors(const CallOperands& call) {
  return std::ranges::all_of(std::array<size_t, 5>{0, 1, 2, 3, 4},
                             [&](size_t i) { return In(call, i).size() == 2; }) &&
         Out(call).size() == 2;
}

// q [..., H, S, D], k and v with as many dimensions, and heads that q's are a multiple of.
bool IsAttention(const CallOperands& call) {
  const Dims& q = In(call, 0);
  const Dims& k = In(call, 1);
  const Dims& v = In(call, 2);
  const size_t rank = q.size();
  if (rank < 3 || k.size() != rank || v.size() != rank || Out(call).size() != rank) return false;
  const int64_t heads = q.end()[-3];
  const auto divides = [&](int64_t of) { return of == heads || (of > 0 && heads % of == 0); };
  if (!divides(k.end()[-3]) || !divides(v.end()[-3])) return false;
  if (q.back() != k.back() || k.end()[-2] != v.end()[-2] || call.ints.size() < 2) return false;
  Dims scores = q;
  scores.back() = k.end()[-2];
  return !Has(call, 3) || (!In(call, 3).empty() && BroadcastsTo(In(call, 3), scores));
}

// --- The operators --------------------------------------------------------------------------

struct OperandsRow {
  std::string_view op;
  size_t least = 1;  // the first inputs that are there
  bool (*fits)(const CallOperands&) = IsAnything;
};

// All others need their first input.
constexpr OperandsRow kRows[] = {
    {"?", 0},
    {"constant", 0},
    {"randperm", 0},

    {"add", 1, AllBroadcast},
    {"add.Scalar", 1, AllBroadcast},
    {"sub", 1, AllBroadcast},
    {"neg", 1, AllBroadcast},
    {"mul", 1, AllBroadcast},
    {"mul.Scalar", 1, AllBroadcast},
    {"div", 1, AllBroadcast},
    {"pow", 1, AllBroadcast},
    {"pow.Tensor_Scalar", 1, AllBroadcast},
    {"pow.Scalar", 1, AllBroadcast},
    {"minimum", 1, AllBroadcast},
    {"maximum", 1, AllBroadcast},
    {"eq", 1, AllBroadcast},
    {"addcdiv", 3, AllBroadcast},
    {"addcmul", 3, AllBroadcast},
    {"atan2", 2, AllBroadcast},
    {"hypot", 2, AllBroadcast},
    {"ldexp", 2, AllBroadcast},
    {"logaddexp", 2, AllBroadcast},
    {"logaddexp2", 2, AllBroadcast},
    {"xlogy", 2, AllBroadcast},
    {"special_xlog1py", 2, AllBroadcast},
    {"fmax", 2, AllBroadcast},
    {"clamp.Tensor", 1, AllBroadcast},
    {"clamp_min.Tensor", 2, AllBroadcast},
    {"lerp.Tensor", 3, AllBroadcast},
    {"div.Tensor_mode", 1, AllBroadcast},
    {"nan_to_num", 1, IsLikeFirst},
    {"sinc", 1, IsLikeFirst},
    {"special_erfcx", 1, IsLikeFirst},
    {"special_i0e", 1, IsLikeFirst},
    {"special_i1", 1, IsLikeFirst},
    {"special_i1e", 1, IsLikeFirst},
    {"special_log_ndtr", 1, IsLikeFirst},
    {"special_ndtri", 1, IsLikeFirst},
    {"remainder", 1, AllBroadcast},
    {"where", 3, AllBroadcast},
    {"masked_fill", 2, AllBroadcast},
    {"prelu", 2, IsActivatedByWeight},
    {"_prelu_kernel", 2, AllBroadcast},
    {"to", 1, AllBroadcast},
    {"type_as", 2, IsLikeFirst},
    {"clamp", 1, AllBroadcast},
    {"clamp_min", 1, AllBroadcast},
    {"relu", 1, AllBroadcast},
    {"leaky_relu", 1, AllBroadcast},
    {"elu", 1, AllBroadcast},
    {"softplus", 1, AllBroadcast},
    {"hardtanh", 1, AllBroadcast},
    {"hardsigmoid", 1, AllBroadcast},
    {"hardswish", 1, AllBroadcast},
    {"mish", 1, AllBroadcast},
    {"bloom_gelu", 3, AllBroadcast},
    {"yoso_cumulation", 5, IsCumulation},
    {"hada_weight", 5, AreFactors},
    {"gelu", 1, AllBroadcast},
    {"silu", 1, AllBroadcast},
    {"log_sigmoid", 1, AllBroadcast},
    {"sigmoid", 1, AllBroadcast},
    {"tanh", 1, AllBroadcast},
    {"exp", 1, AllBroadcast},
    {"expm1", 1, AllBroadcast},
    {"log", 1, AllBroadcast},
    {"log2", 1, AllBroadcast},
    {"log1p", 1, AllBroadcast},
    {"sqrt", 1, AllBroadcast},
    {"rsqrt", 1, AllBroadcast},
    {"reciprocal", 1, AllBroadcast},
    {"erf", 1, AllBroadcast},
    {"abs", 1, AllBroadcast},
    {"sin", 1, AllBroadcast},
    {"cos", 1, AllBroadcast},
    {"tan", 1, AllBroadcast},
    {"atan", 1, AllBroadcast},
    {"sinh", 1, AllBroadcast},
    {"asin", 1, AllBroadcast},
    {"acos", 1, AllBroadcast},
    {"asinh", 1, AllBroadcast},
    {"floor", 1, AllBroadcast},
    {"dropout", 1, AllBroadcast},
    {"dropout_", 1, IsLikeFirst},

    {"linear", 2, IsLinear},
    {"matmul", 2, IsProduct},
    {"addmm", 3, AreMatrices},
    {"mm", 2, AreMatrices},
    {"mv", 2},
    {"dot", 2},
    {"vdot", 2},
    {"linalg_vecdot", 2},
    {"addmv", 3},
    {"addr", 3},
    {"addbmm", 3},
    {"baddbmm", 3},
    {"_weight_norm", 2},
    {"cross", 2, AllBroadcast},
    {"dist", 2},
    {"pairwise_distance", 2, HasDims},
    {"triplet_margin_loss", 3, HasDims},
    {"cosine_similarity", 2, HasDims},
    {"max_unpool2d", 2, HasChannels},
    {"prod", 1, IsPart},
    {"convolution", 2, IsConvolution},
    {"scaled_dot_product_attention", 3, IsAttention},

    {"batch_norm", 1, HasDims},
    {"batch_norm_inference", 1, HasDims},
    {"instance_norm", 1, HasChannels},
    {"group_norm", 1, HasChannels},
    {"layer_norm", 1, HasDims},
    {"rms_norm", 1, HasDims},

    {"contiguous", 1, HasAsMany},
    {"clone", 1, HasAsMany},
    {"permute", 1, IsPermuted},
    {"expand", 1, IsExpanded},
    {"select", 1, IsPart},
    {"slice", 1, IsPart},
    {"split", 1, IsPart},
    {"unbind", 1, IsPart},
    {"view_as_complex", 1},
    {"view_as_real", 1},
    {"polar", 2, AllBroadcast},
    {"slice_scatter", 1, IsLikeFirst},
    {"fill_", 1, IsLikeFirst},
    {"cat", 1, AreJoined},

    {"embedding", 2, IsTable},
    {"embedding_bag", 3},
    {"index", 2, HasDims},
    {"index.host", 1, HasDims},
    {"index_select", 2},
    {"gather", 2},
    {"grid_sampler", 2, HasChannels},
    {"im2col", 1, HasChannels},
    {"unfold", 1, HasWindows},
    {"diagonal", 1, HasDiagonal},
    {"diag_embed", 1, IsOnDiagonal},
    {"select_scatter", 2, IsLikeFirst},
    {"copy_slice", 2, IsLikeFirst},
    {"as_strided_scatter", 2, IsLikeFirst},
    {"index_add", 3, IsLikeFirst},
    {"index_add.alpha", 3, IsLikeFirst},
    {"index_copy", 3, IsLikeFirst},
    {"index_fill", 2, IsLikeFirst},
    {"index_put", 3, IsLikeFirst},
    {"index_put.accumulate", 3, IsLikeFirst},
    {"put", 3, IsLikeFirst},
    {"put.accumulate", 3, IsLikeFirst},
    {"scatter_reduce", 3, IsLikeFirst},
    {"index_reduce", 3, IsLikeFirst},
    {"masked_scatter", 3},
    {"copysign", 1, AllBroadcast},
    {"native_dropout_backward", 2, AllBroadcast},
    {"scatter", 2},
    {"scatter_add", 2},
    {"nll_loss", 2},
    {"nll_loss2d", 2},
    {"mse_loss", 2},
};

const OperandsRow& OperandsOf(std::string_view op) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const OperandsRow*> rows;
    for (const OperandsRow& row : kRows) rows.emplace(row.op, &row);
    return rows;
  }();
  static constexpr OperandsRow kOther = {.op = "", .least = 1};
  const auto found = index.find(RuleNameOf(op));
  return found == index.end() ? kOther : *found->second;
}

}  // namespace

bool FitsRule(const CallOperands& call) {
  const OperandsRow& row = OperandsOf(call.op);
  for (size_t i = 0; i < row.least; ++i) {
    if (!Has(call, i)) return false;
  }
  if (row.fits == IsAnything) return true;
  return !call.outputs.empty() && call.outputs[0] != nullptr && row.fits(call);
}

std::vector<int64_t> ToInts(const std::optional<ConvolutionArguments>& arguments) {
  if (!arguments) return {};
  std::vector<int64_t> ints = {arguments->groups, arguments->is_transposed ? 1 : 0};
  for (const auto* list : {&arguments->stride, &arguments->padding, &arguments->dilation}) {
    ints.insert(ints.end(), list->begin(), list->end());
  }
  return ints;
}

std::optional<ConvolutionArguments> ArgumentsIn(std::span<const int64_t> ints) {
  if (ints.size() < 2) return std::nullopt;
  const size_t count = (ints.size() - 2) / 3;
  const auto list = [&](size_t i) {
    const std::span<const int64_t> part = ints.subspan(2 + i * count, count);
    return std::vector<int64_t>(part.begin(), part.end());
  };
  return ConvolutionArguments{.stride = list(0),
                              .padding = list(1),
                              .dilation = list(2),
                              .groups = ints[0],
                              .is_transposed = ints[1] != 0};
}

Reduction ReductionOf(std::string_view reduce) {
  if (reduce == "sum") return Reduction::kSum;
  if (reduce == "mean") return Reduction::kMean;
  return reduce == "amax" || reduce == "amin" ? Reduction::kExtreme : Reduction::kProduct;
}

}  // namespace onnxfit
