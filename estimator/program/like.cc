#include "estimator/program/like.h"

#include <unordered_map>

namespace onnxfit {
namespace {

// Sources: pytorch v2.11.0, tools/autograd/derivatives.yaml (equal formulas), and, where an
// operator calls another one, aten/src/ATen/native.
constexpr LikeRow kLikeRows[] = {
    // Their gradient is zeros.
    {"ceil", "floor"},
    {"round", "floor"},
    {"sign", "floor"},
    {"trunc", "floor"},
    {"fill", "floor"},
    {"round.decimals", "floor"},

    {"relu6", "hardtanh"},  // at::hardtanh (x, 0, 6)
    {"celu", "elu"},        // at::elu with other numbers, as the next
    {"selu", "elu"},
    {"clamp_max", "clamp_min"},
    {"log10", "log2"},
    {"fmod", "remainder"},
    {"cosh", "sinh"},               // grad * sinh (x)
    {"acosh", "asinh"},             // grad * rsqrt (x * x - 1)
    {"atanh", "asinh"},             // grad * 1 / (1 - x ** 2)
    {"hardshrink", "hardsigmoid"},  // a kernel that reads the gradient and x
    {"softshrink", "hardsigmoid"},
    {"threshold", "hardsigmoid"},
    {"logit", "hardsigmoid"},
    {"angle", "hardsigmoid"},   // of real numbers zeros, or pi
    {"erfc", "erf"},            // -2 / sqrt (pi) * exp (-(x ** 2)) * grad
    {"erfinv", "asin"},         // sqrt (pi) / 2 * exp (erfinv (x) ** 2) * grad
    {"exp2", "sqrt"},           // grad * result * log (2)
    {"special_entr", "asinh"},  // grad * (-(1 + log (x)))
    {"frac", "add.Scalar"},     // grad
    {"deg2rad", "mul.Scalar"},
    {"rad2deg", "mul.Scalar"},
    {"fmin", "fmax"},
    {"clamp_max.Tensor", "clamp_min.Tensor"},
    {"square", "pow.Tensor_Scalar"},  // at::pow (x, 2)
    {"triu", "tril"},

    // Not differentiable.
    {"ne", "eq"},
    {"gt", "eq"},
    {"ge", "eq"},
    {"lt", "eq"},
    {"le", "eq"},
    {"logical_and", "eq"},
    {"logical_or", "eq"},
    {"logical_xor", "eq"},
    {"logical_not", "eq"},
    {"bitwise_and", "eq"},
    {"bitwise_or", "eq"},
    {"bitwise_xor", "eq"},
    {"bitwise_not", "eq"},
    {"bitwise_left_shift", "eq"},
    {"bitwise_right_shift", "eq"},
    {"__and__", "eq"},
    {"__or__", "eq"},
    {"__xor__", "eq"},
    {"__lshift__", "eq"},
    {"__rshift__", "eq"},
    {"isnan", "eq"},
    {"isinf", "eq"},
    {"floor_divide", "eq"},

    {"smooth_l1_loss", "mse_loss"},

    // Reductions.
    {"min.dim", "max.dim"},
    {"amin", "amax"},
    {"any", "amax"},
    {"all", "amax"},
    {"argmin", "argmax"},
    {"one_hot", "argmax"},
    {"linalg_vector_norm", "norm"},
    {"min", "max"},
    {"cummin", "cummax"},
    {"linalg_cross", "cross"},

    // One, two and three dimensions.
    {"upsample_nearest1d", "upsample_nearest3d"},
    {"upsample_linear1d", "upsample_bicubic2d"},
    {"_upsample_nearest_exact1d", "upsample_nearest3d"},
    {"_upsample_nearest_exact2d", "upsample_nearest2d"},
    {"_upsample_nearest_exact3d", "upsample_nearest3d"},
    {"max_unpool3d", "max_unpool2d"},
    {"linalg_diagonal", "select"},

    {"block_diag", "cat"},  // parts of the gradient
    {"diagonal_scatter", "select_scatter"},
    {"take", "gather"},
    {"alpha_dropout", "mul"},  // x * noise, then + shift in place
    {"col2im", "im2col"},
    {"pixel_unshuffle", "pixel_shuffle"},
    {"channel_shuffle", "pixel_shuffle"},
    {"tile", "repeat"},
};

// Operators with rows of their own, of which ONNX has the same node as of another one.
constexpr LikeRow kOfSameNode[] = {
    {"max_pool1d", "max_pool2d"},
    {"max_pool3d", "max_pool2d"},
    {"adaptive_max_pool1d", "max_pool2d"},
    {"adaptive_max_pool2d", "max_pool2d"},
    {"adaptive_max_pool3d", "max_pool2d"},
    {"avg_pool1d", "avg_pool2d"},
    {"avg_pool3d", "avg_pool2d"},
    {"adaptive_avg_pool1d", "avg_pool2d"},
    {"adaptive_avg_pool2d", "avg_pool2d"},
    {"adaptive_avg_pool3d", "avg_pool2d"},
    {"upsample_nearest3d", "upsample_nearest2d"},
    {"upsample_bilinear2d", "upsample_nearest2d"},
    {"upsample_bicubic2d", "upsample_nearest2d"},
    {"upsample_trilinear3d", "upsample_nearest2d"},
    {"_upsample_bilinear2d_aa", "upsample_nearest2d"},
    {"_upsample_bicubic2d_aa", "upsample_nearest2d"},
    {"upsample_nearest1d", "upsample_nearest2d"},
    {"upsample_linear1d", "upsample_nearest2d"},
    {"_upsample_nearest_exact1d", "upsample_nearest2d"},
    {"_upsample_nearest_exact3d", "upsample_nearest2d"},
};

constexpr std::string_view kNamespace = "aten.";

}  // namespace

std::span<const LikeRow> LikeRows() { return kLikeRows; }

std::string_view RuleNameOf(std::string_view op) {
  static const auto rows = [] {
    std::unordered_map<std::string_view, std::string_view> found;
    for (const LikeRow& row : kLikeRows) found.emplace(row.op, row.like);
    return found;
  }();
  const auto found = rows.find(op);
  return found == rows.end() ? op : found->second;
}

// In the names of this table, which stay.
std::string_view NamedBy(std::string_view target, std::string_view op) {
  if (!target.starts_with(kNamespace)) return op;
  target.remove_prefix(kNamespace.size());
  const std::string_view name = target.substr(0, target.find('.'));
  if (name == RuleNameOf(op)) return RuleNameOf(op);
  for (const std::span<const LikeRow> rows : {LikeRows(), std::span<const LikeRow>(kOfSameNode)}) {
    for (const LikeRow& row : rows) {
      if (row.op == name && row.like == RuleNameOf(op)) return row.op;
    }
  }
  return op;
}

}  // namespace onnxfit
