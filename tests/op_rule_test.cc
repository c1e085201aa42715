#include "estimator/operators/op_rule.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "estimator/program/like.h"

namespace onnxfit::op_rule_test {
namespace {

TEST_CASE("the gradients that are wanted decide what the forward pass keeps") {
  struct Row {
    const char* op;
    Slots wanted;
    Slots saved;
  };
  const Row rows[] = {
      {"add", In(0) | In(1), {}},
      {"action", In(0), {}},
      {"argmax", {}, {}},
      {"nonzero", {}, {}},
      {"atan2", In(0), In(0) | In(1)},
      {"binary_cross_entropy", In(0), In(0) | In(1) | In(2)},
      {"binary_cross_entropy_with_logits", In(1), In(0) | In(1) | In(2)},
      {"clamp.Tensor", In(1), In(0) | In(1) | In(2)},
      {"clamp_min.Tensor", In(0), In(0) | In(1)},
      {"_euclidean_dist", In(0), In(0) | In(1) | Out(0)},
      {"_trilinear", In(0), In(1) | In(2)},
      {"cdist", In(0), In(0) | In(1) | Out(0)},
      {"cosine_embedding_loss", {}, {}},  // taken apart
      {"embedding_bag", In(0), In(1) | In(2) | In(3) | Aux(0) | Aux(1) | Aux(2)},
      {"sqrt_", In(0), Out(0)},
      {"cross_entropy_loss", {}, {}},  // taken apart, as the losses behind it
      {"hinge_embedding_loss", {}, {}},
      {"kl_div", {}, {}},
      {"l1_loss", {}, {}},
      {"margin_ranking_loss", {}, {}},
      {"poisson_nll_loss", {}, {}},
      {"div.Tensor_mode", In(0), In(1)},
      {"fmax", In(1), In(0) | In(1)},
      {"frexp", In(0), Out(1)},
      {"huber_loss", In(0), In(0) | In(1)},
      {"hypot", In(1), In(1) | Out(0)},
      {"ldexp", In(0), In(1)},
      {"ldexp", In(1), Out(0)},
      {"lerp.Tensor", In(0) | In(1), In(2)},
      {"lerp.Tensor", In(2), In(0) | In(1)},
      {"logaddexp", In(0), In(0) | In(1)},
      {"logaddexp2", In(0), In(0) | In(1)},
      {"multi_margin_loss", In(0), In(0) | In(1) | In(2)},
      {"multilabel_margin_loss", In(0), In(0) | In(1) | Aux(0)},
      {"nan_to_num", In(0), In(0)},
      {"pdist", In(0), In(0) | Out(0)},
      {"rrelu", In(0), In(0) | Aux(0)},
      {"sinc", In(0), In(0)},
      {"soft_margin_loss", In(0), In(0) | In(1)},
      {"special_erfcx", In(0), In(0) | Out(0)},
      {"special_i0e", In(0), In(0) | Out(0)},
      {"special_i1", In(0), In(0) | Out(0)},
      {"special_i1e", In(0), In(0) | Out(0)},
      {"special_log_ndtr", In(0), In(0) | Out(0)},
      {"special_ndtri", In(0), Out(0)},
      {"special_xlog1py", In(1), In(0) | In(1)},
      {"xlogy", In(0), In(0) | In(1)},
      {"acos", In(0), In(0)},
      {"asin", In(0), In(0)},
      {"asinh", In(0), In(0)},
      {"atan", In(0), In(0)},
      {"clamp", In(0), In(0)},
      {"clamp_min", In(0), In(0)},
      {"expm1", In(0), Out(0)},
      {"glu", In(0), In(0)},
      {"instance_norm", {}, {}},  // taken apart
      {"log1p", In(0), In(0)},
      {"log2", In(0), In(0)},
      {"sinh", In(0), In(0)},
      {"log_sigmoid", In(0), In(0)},
      {"logsumexp", In(0), In(0) | Out(0)},
      {"max.dim", In(0), Aux(0)},
      {"norm", In(0), In(0) | Out(0)},
      {"norm.one", In(0), In(0)},
      {"norm.power", In(0), In(0) | Out(0)},
      {"norm.largest", In(0), In(0) | Out(0)},
      {"dist", In(1), In(0) | In(1) | Out(0)},
      {"pairwise_distance", {}, {}},  // taken apart, as the next two
      {"triplet_margin_loss", {}, {}},
      {"cosine_similarity", {}, {}},
      {"cross", In(0), In(1)},
      {"max", In(0), In(0) | Out(0)},
      {"median", In(0), In(0) | Out(0)},
      {"sort", In(0), Out(1)},
      {"argsort", In(0), {}},
      {"nanmedian", In(0), In(0) | Out(0)},
      {"mode", In(0), {}},
      {"randperm", {}, {}},
      {"unique", In(0), {}},
      {"unique.bool", In(0), {}},
      {"unique_consecutive", In(0), {}},
      {"nonzero.self", In(0), {}},
      {"histc", In(0), {}},
      {"searchsorted", In(0), {}},
      {"multinomial", In(0), {}},
      {"masked_select", In(0), In(0) | In(1)},
      {"embedding.sparse", In(0), In(1)},
      {"embedding_bag.sparse", In(0), In(1) | In(2) | Aux(0) | Aux(1)},
      {"_masked_softmax.rows", In(0), {}},
      {"cummax", In(0), In(0) | Out(1)},
      {"var_mean", In(0), In(0)},
      {"std_mean", In(0), In(0) | Out(0)},
      {"prod", In(0), In(0) | Out(0)},
      {"cumprod", In(0), In(0) | Out(0)},
      {"logcumsumexp", In(0), In(0) | Out(0)},
      {"mvlgamma", In(0), In(0)},
      {"nansum", In(0), In(0)},
      {"trace", In(0), {}},
      {"max_pool2d_with_indices", In(0), In(0) | Out(1)},
      {"fractional_max_pool2d", In(0), In(0) | Out(1)},
      {"max_unpool2d", In(0), In(1)},
      {"normal", In(0), {}},
      {"addbmm", In(0) | In(1), In(2)},
      {"mv", In(0) | In(1), In(0) | In(1)},
      {"addmv", In(0) | In(2), In(1)},
      {"addr", In(0) | In(1), In(2)},
      {"dot", In(0), In(1)},
      {"vdot", In(1), In(0)},
      {"linalg_vecdot", {}, {}},  // taken apart
      {"pad.copies", In(0), In(0)},
      {"pixel_shuffle", In(0), {}},
      {"flip", In(0), {}},
      {"im2col", In(0), {}},
      {"einsum_operand", {}, {}},  // taken apart
      {"grid_sampler", {}, {}},    // taken apart
      {"_grid_sampler", In(0), In(0) | In(1)},
      {"_cudnn_grid_sampler", In(1), In(0) | In(1)},
      {"var", In(0), In(0)},
      {"std", In(0), In(0) | Out(0)},
      {"addcmul", In(0) | In(1), In(2)},
      {"addcdiv", In(0) | In(2), In(1) | In(2)},
      {"lerp", In(0) | In(1), {}},
      {"baddbmm", In(0) | In(1) | In(2), In(1) | In(2)},
      {"scatter_add", In(0), {}},
      {"as_strided_scatter", In(0) | In(1), {}},
      {"copysign", In(0), In(0) | Out(0)},
      {"linalg_inv", In(0), Out(0)},
      {"linalg_solve_triangular", In(1), In(0) | Out(0)},
      {"_fft_c2r", In(0), {}},
      {"_fft_r2c", In(0), In(0)},
      {"_fft_c2c", In(0), {}},
      {"copysign", In(1), {}},
      {"diag_embed", In(0), {}},
      {"diagonal", In(0), {}},
      {"index_add", In(0), {}},
      {"index_add", In(2), In(1) | In(2)},
      {"index_add.alpha", In(2), In(1) | In(2)},
      {"index_copy", In(0), In(1)},
      {"index_fill", In(0), In(1)},
      {"index_fill.Tensor", In(0) | In(2), In(1)},
      {"masked_fill.Tensor", In(0) | In(2), In(1)},
      {"index_put", In(0), In(2) | In(3) | In(4) | In(5)},
      {"index_put.accumulate", In(0), {}},
      {"copy_slice", In(0) | In(1), {}},
      {"index_reduce", In(0), In(0) | In(1) | In(2) | Out(0)},
      {"masked_scatter", In(2), In(1)},
      {"native_dropout_backward", In(0), In(0) | In(1)},
      {"pad.circular", In(0), {}},
      {"put", In(2), In(1) | In(2)},
      {"put.accumulate", In(0), {}},
      {"scatter_reduce", In(2), In(0) | In(1) | In(2) | Out(0)},
      {"select_scatter", In(0) | In(1), {}},
      {"view_as_complex", In(0), {}},
      {"view_as_real", In(0), {}},
      {"polar", In(0) | In(1), Out(0)},
      {"unfold", In(0), {}},
      {"tan", In(0), Out(0)},
      {"add.Scalar", In(0), {}},
      {"_cudnn_attention", In(0),
       In(0) | In(1) | In(2) | In(3) | Out(0) | Aux(0) | Aux(1) | Aux(2)},
      {"_efficient_attention", In(0),
       In(0) | In(1) | In(2) | In(3) | Out(0) | Aux(0) | Aux(1) | Aux(2)},
      {"_flash_attention", In(0), In(0) | In(1) | In(2) | Out(0) | Aux(0) | Aux(1) | Aux(2)},
      {"_flash_attention", In(2), In(0) | In(1) | In(2) | Out(0) | Aux(0) | Aux(1) | Aux(2)},
      {"_flash_attention_1", In(0), In(0) | In(1) | In(2) | Out(0) | Aux(0) | Aux(1) | Aux(2)},
      {"_flash_attention_1", In(1), In(0) | In(1) | In(2) | Out(0) | Aux(0) | Aux(1) | Aux(2)},
      {"_safe_softmax", In(0), Out(0)},
      {"_softmax", In(0), Out(0)},
      {"_transform_bias_rescale_qkv", {}, {}},  // of inference alone, as the next three
      {"_masked_softmax", {}, {}},
      {"softmax_", {}, {}},
      {"bmm_", {}, {}},
      {"add_", In(0) | In(1), {}},
      {"addmm", In(0) | In(1) | In(2), In(1) | In(2)},
      {"addmm", In(0) | In(2), In(1)},  // x is data
      {"addmm_4bit", {}, {}},           // taken apart, as the next
      {"linear_4bit", {}, {}},
      {"addmm_dequantized", In(1), {}},  // weights are dequantized again
      {"linear_dequantized", In(0), {}},
      {"addmm_packed", In(1), {}},
      {"linear_packed", In(0), {}},
      {"linear_8bit", In(0), In(2)},  // in an attribute of its context
      {"int8_row_stats", {}, {}},
      {"int8_vectorwise_quant", {}, {}},
      {"clone", In(0), {}},
      {"addmm_of_rows", In(0) | In(1) | In(2), In(1) | In(2)},
      {"from_local", In(0), {}},
      {"all_reduce", In(0), {}},
      {"zero3_addmm", In(0), In(0) | In(1) | In(2)},  // of Python's: all that it is given
      {"zero3_linear", In(0), In(0) | In(1) | In(2)},
      {"all_gather", In(0), {}},
      {"gather_tokens", In(0), {}},
      {"gather_tokens_of_all", In(0), {}},
      {"take_tokens", In(0), {}},
      {"reduce_scatter", In(0), {}},
      {"as_distributed", In(0), {}},
      {"contiguous", {}, {}},  // taken apart, as the next six
      {"linear", {}, {}},
      {"linear_of_columns", {}, {}},
      {"linear_of_rows", {}, {}},
      {"prelu", {}, {}},
      {"matmul", {}, {}},
      {"scaled_dot_product_attention", {}, {}},
      {"type_as", {}, {}},  // taken apart
      {"to_other_width", {}, {}},
      {"to", {}, {}},
      {"select", In(0), {}},
      {"_log_softmax", In(0), Out(0)},
      {"abs", In(0), In(0)},
      {"amax", In(0), In(0) | Out(0)},
      {"as_strided", In(0), {}},
      {"avg_pool2d", In(0), In(0)},
      {"batch_norm", In(0) | In(1) | In(2), In(0) | In(1) | In(3) | In(4) | Aux(0) | Aux(1)},
      {"batch_norm", In(2), In(0) | In(1) | In(3) | In(4) | Aux(0) | Aux(1)},
      {"native_batch_norm", In(0), In(0) | In(1) | In(3) | In(4) | Out(1) | Out(2)},
      {"batch_norm_inference", In(0), In(0) | In(1) | In(3) | In(4) | Aux(0) | Aux(1)},
      {"bernoulli", {}, {}},
      {"bmm", In(0) | In(1), In(0) | In(1)},
      {"_grouped_mm", In(0) | In(1), In(0) | In(1) | In(2)},
      {"cat", In(0) | In(1), {}},
      {"eq", {}, {}},
      {"constant", {}, {}},
      {"convolution", In(0) | In(1) | In(2), In(0) | In(1)},
      {"convolution", In(1), In(0) | In(1)},  // x is data: one formula, so both
      {"cumsum", In(0), {}},
      {"cos", In(0), In(0)},
      {"div", In(0), In(1)},
      {"div", In(0) | In(1), In(0) | In(1)},
      {"dropout", In(0), Aux(0)},
      {"dropout_", In(0), Aux(0)},
      {"elu", In(0), In(0)},
      {"embedding", In(0), In(1)},
      {"erf", In(0), In(0)},
      {"exp", In(0), Out(0)},
      {"expand", In(0), {}},
      {"floor", In(0), {}},
      {"gather", In(0), In(0) | In(1)},
      {"scatter", In(0) | In(2), In(1)},
      {"topk", In(0), Out(1)},
      {"gelu", In(0), In(0)},
      {"group_norm", In(0), In(0) | In(1) | Aux(0) | Aux(1)},
      {"hardsigmoid", In(0), In(0)},
      {"hardswish", In(0), In(0)},
      {"hardtanh", In(0), In(0)},
      {"fill_", {}, {}},  // taken apart, as is slice_scatter
      {"index", In(0), In(1) | In(2) | In(3) | In(4)},
      {"index.host", In(0), {}},
      {"index_select", In(0), In(1)},
      {"roll", In(0), {}},
      {"slice_scatter", {}, {}},
      {"_slice_scatter", In(0) | In(1), {}},
      {"unbind", In(0), {}},
      {"layer_norm", In(0) | In(1) | In(2), In(0) | In(1) | In(2) | Aux(0) | Aux(1)},
      {"native_layer_norm", In(0), In(0) | In(1) | In(2) | Out(1) | Out(2)},
      {"leaky_relu", In(0), In(0)},
      {"log", In(0), In(0)},
      {"log_softmax", In(0), Out(0)},
      {"masked_fill", In(0), In(1)},
      {"masked_fill_", In(0), In(1)},
      {"max_pool2d", In(0), In(0) | Aux(0)},
      {"max_pool3d", In(0), In(0) | Aux(0)},
      {"max_pool3d_with_indices", In(0), In(0) | Out(1)},
      {"adaptive_max_pool2d", In(0), In(0) | Aux(0)},
      {"adaptive_max_pool3d", In(0), In(0) | Aux(0)},
      {"max_pool1d", {}, {}},  // taken apart, as all of one dimension
      {"adaptive_max_pool1d", {}, {}},
      {"avg_pool1d", {}, {}},
      {"adaptive_avg_pool1d", {}, {}},
      {"avg_pool3d", In(0), In(0)},
      {"adaptive_avg_pool2d", {}, {}},
      {"adaptive_avg_pool3d", {}, {}},
      {"_adaptive_avg_pool2d", In(0), In(0)},
      {"_adaptive_avg_pool3d", In(0), In(0)},
      {"fractional_max_pool3d", In(0), In(0) | Out(1)},
      {"upsample_nearest3d", In(0), {}},
      {"upsample_bilinear2d", In(0), {}},
      {"upsample_bicubic2d", In(0), {}},
      {"upsample_trilinear3d", In(0), {}},
      {"_upsample_bilinear2d_aa", In(0), {}},
      {"_upsample_bicubic2d_aa", In(0), {}},
      {"kthvalue", In(0), Out(1)},
      {"pad.reflect", In(0), In(0)},
      {"bernoulli.self", In(0), {}},
      {"maximum", In(0), In(0) | In(1)},
      {"mean", In(0), {}},
      {"minimum", In(1), In(0) | In(1)},
      {"mish", In(0), In(0)},
      {"bloom_gelu", In(0), In(0)},
      {"yoso_cumulation", In(0), In(0) | In(1) | In(2) | In(3) | In(4)},
      {"yoso_cumulation", In(3), {}},
      {"hada_weight", In(2), In(0) | In(1) | In(2) | In(3)},
      {"sum.dtype", In(0), {}},
      {"mm", In(0) | In(1), In(0) | In(1)},
      {"mse_loss", In(0), In(0) | In(1)},
      {"mul", In(0) | In(1), In(0) | In(1)},
      {"mul", In(0), In(1)},
      {"mul.Scalar", In(0), {}},
      {"neg", In(0), {}},
      {"nll_loss", In(0), In(0) | In(1) | In(2) | Aux(0)},
      {"nll_loss2d", In(0), In(0) | In(1) | In(2) | Aux(0)},
      {"pad", In(0), {}},
      {"permute", In(0), {}},
      {"pow", In(0), In(0) | In(1)},
      {"pow", In(1), In(0) | In(1) | Out(0)},
      {"pow.Scalar", In(0), Out(0)},
      {"pow.Tensor_Scalar", In(0), In(0)},
      {"_prelu_kernel", In(0) | In(1), In(0) | In(1)},
      {"_weight_norm", In(0) | In(1), In(0) | In(1) | Aux(0)},
      {"lstm", {}, {}},  // these three: taken apart
      {"gru", {}, {}},
      {"rnn", {}, {}},
      {"cudnn_rnn", In(5), In(0) | In(1) | In(2) | In(3) | Out(0) | Aux(0) | Aux(1)},
      {"cudnn_dropout_states", {}, {}},
      {"flat_weights", {}, {}},
      {"copy_into_flat_weights", In(1), {}},
      {"reciprocal", In(0), Out(0)},
      {"remainder", In(0), {}},
      {"remainder", In(1), In(0) | In(1)},
      {"relu", In(0), Out(0)},
      {"rms_norm", {}, {}},  // taken apart
      {"_fused_rms_norm", In(0), In(0) | In(1) | Aux(0)},
      {"sigmoid", In(0), Out(0)},
      {"silu", In(0), In(0)},
      {"sin", In(0), In(0)},
      {"slice", In(0), {}},
      {"softmax", In(0), Out(0)},
      {"softplus", In(0), In(0)},
      {"split", In(0), {}},
      {"sqrt", In(0), Out(0)},
      {"rsqrt", In(0), Out(0)},
      {"sub", In(0) | In(1), {}},
      {"sum", In(0), {}},
      {"tanh", In(0), Out(0)},
      {"repeat", In(0), {}},  // taken apart
      {"_repeat", In(0), {}},
      {"repeat_interleave", In(0), {}},  // taken apart
      {"_to_copy", In(0), {}},
      {"tril", In(0), {}},
      {"upsample_nearest2d", In(0), {}},
      {"view", In(0), {}},
      {"where", In(1) | In(2), In(0)},
  };
  std::set<std::string_view> tested;
  for (const Row& row : rows) {
    CAPTURE(row.op);
    REQUIRE(HasOpRule(row.op));
    CHECK(SavedForBackward(FindOpRule(row.op), row.wanted) == row.saved);
    tested.insert(row.op);
  }
  for (const auto family : AllOpRules()) {
    for (const OpRule& rule : family) {
      CAPTURE(std::string(rule.name));
      CHECK_MESSAGE(tested.contains(rule.name), "a row of the table has no line here");
    }
  }
}

// Experts' weights are transposed on the way to their product; what comes back to them is as they
// lie, by events of torch 2.11.0.
TEST_CASE("the gradients of a product in groups lie as its operands do") {
  const OpRule& rule = FindOpRule("_grouped_mm");
  CHECK(GradientOf(rule, 0).form == Gradient::Form::kNewAsIn);
  CHECK(GradientOf(rule, 1).form == Gradient::Form::kNewAsIn);
}

TEST_CASE("every row is well formed") {
  std::set<std::string_view> names;
  for (const auto family : AllOpRules()) {
    for (const OpRule& rule : family) {
      CAPTURE(std::string(rule.name));
      CHECK_MESSAGE(names.insert(rule.name).second, "two rows of one name");
      for (const Step& step : rule.forward) {
        CHECK((step.type != Step::Type::kGrad && step.type != Step::Type::kDropGradient));
      }
      for (const Step& step : rule.backward) {
        CHECK((step.type != Step::Type::kOut && step.type != Step::Type::kAux));
      }
      for (int i = 0; i < 5; ++i) {
        const Slots reads = GradientOf(rule, i).reads;
        for (int aux = 0; aux < kMaxAuxSlots; ++aux) {
          if (!reads.Has(Aux(aux))) continue;
          REQUIRE(static_cast<size_t>(aux) < rule.aux.size());
          CHECK((rule.aux[static_cast<size_t>(aux)].type != nullptr));
        }
      }
    }
  }
}

// "CUDA Ops that can autocast to float16" and "to float32" of PyTorch's documentation of torch.amp
// (2.11), those that have a row.
TEST_CASE("autocast casts what PyTorch says") {
  constexpr std::string_view kLower[] = {"addmm",
                                         "baddbmm",
                                         "bmm",
                                         "mm",
                                         "linear",
                                         "matmul",
                                         "linear_of_rows",
                                         "linear_of_columns",
                                         "addmm_of_rows",
                                         "prelu",
                                         "convolution",
                                         "addmv",
                                         "addbmm",
                                         "addr",
                                         "mv",
                                         "linalg_vecdot",
                                         "scaled_dot_product_attention"};
  constexpr std::string_view kFp32[] = {"pow",
                                        "pow.Tensor_Scalar",
                                        "pow.Scalar",
                                        "exp",
                                        "expm1",
                                        "log",
                                        "log1p",
                                        "layer_norm",
                                        "group_norm",
                                        "log_softmax",
                                        "mse_loss",
                                        "nll_loss",
                                        "nll_loss2d",
                                        "norm",
                                        "reciprocal",
                                        "rsqrt",
                                        "softmax",
                                        "softplus",
                                        "sum",
                                        "tan",
                                        "cumsum",
                                        "acos",
                                        "asin",
                                        "cosh",
                                        "sinh",
                                        "log2",
                                        "log10",
                                        "erfinv",
                                        "kl_div",
                                        "l1_loss",
                                        "huber_loss",
                                        "smooth_l1_loss",
                                        "pdist",
                                        "poisson_nll_loss",
                                        "margin_ranking_loss",
                                        "hinge_embedding_loss",
                                        "soft_margin_loss",
                                        "multi_margin_loss",
                                        "multilabel_margin_loss",
                                        "binary_cross_entropy_with_logits",
                                        "prod",
                                        "cumprod",
                                        "dist",
                                        "cosine_similarity",
                                        "triplet_margin_loss"};
  for (const std::string_view name : kLower) {
    CAPTURE(std::string(name));
    CHECK(FindOpRule(name).autocast == AutocastPolicy::kLower);
  }
  for (const std::string_view name : kFp32) {
    CAPTURE(std::string(name));
    const AutocastPolicy policy = FindOpRule(name).autocast;
    CHECK((policy == AutocastPolicy::kFp32 || policy == AutocastPolicy::kFp32Result ||
           policy == AutocastPolicy::kFp32FromHalf));
  }
  for (const std::string_view name : {"dot", "vdot"}) {
    CHECK(FindOpRule(name).autocast == AutocastPolicy::kWidest);
  }
  for (const std::string_view name : {"relu", "gelu", "tanh", "batch_norm", "add", "mul", "mean"}) {
    CAPTURE(std::string(name));
    CHECK(FindOpRule(name).autocast == AutocastPolicy::kAsIs);
  }
}

// Modules of torch.nn 2.11 that take inplace=True, and what only may write over a sum.  A clone is
// kept where the backward formula reads the input (derivatives.yaml), unless the formula of the
// operator in place reads the result.
TEST_CASE("what works in place is what torch.nn has in place") {
  const std::map<std::string_view, InPlace> expected = {
      {"relu", InPlace::kResult},
      {"leaky_relu", InPlace::kResult},
      {"elu", InPlace::kResult},
      {"add", InPlace::kResult},
      {"hardtanh", InPlace::kClone},
      {"hardswish", InPlace::kClone},
      {"mish", InPlace::kClone},
      {"silu", InPlace::kClone},
      // x[i] = y
      {"index_add", InPlace::kResult},
      {"index_add.alpha", InPlace::kResult},
      {"index_copy", InPlace::kResult},
      {"index_fill", InPlace::kResult},
      {"index_fill.Tensor", InPlace::kResult},
      {"index_put", InPlace::kResult},
      {"index_put.accumulate", InPlace::kResult},
      {"copy_slice", InPlace::kAlways},
  };
  for (const auto family : AllOpRules()) {
    for (const OpRule& listed : family) {
      const OpRule& rule = FindOpRule(listed.name);
      const bool is_named = rule.in_place == InPlace::kAlways || rule.in_place == InPlace::kIfNamed;
      if (is_named || rule.name.ends_with('_')) continue;
      CAPTURE(std::string(rule.name));
      const auto row = expected.find(rule.name);
      CHECK(rule.in_place == (row == expected.end() ? InPlace::kNever : row->second));
    }
  }
  for (const auto& [name, in_place] : expected) CHECK(FindOpRule(name).in_place == in_place);
}

// TensorIterator's promotion: by two tensors, of which autocast may have left one in 16 bits.
TEST_CASE("sums and products of two tensors have the wider type") {
  for (const std::string_view name :
       {"add", "sub", "mul", "div", "minimum", "maximum", "where", "cross"}) {
    CAPTURE(std::string(name));
    CHECK(FindOpRule(name).promotes);
  }
}

TEST_CASE("what runs like another operator has that one's row") {
  std::set<std::string_view> names;
  for (const LikeRow& row : LikeRows()) {
    CAPTURE(std::string(row.op));
    CHECK_MESSAGE(names.insert(row.op).second, "two rows of one name");
    CHECK_MESSAGE(RuleNameOf(row.like) == row.like, "the other one has a row of its own");
    REQUIRE(HasOpRule(row.like));
    CHECK(&FindOpRule(row.op) == &FindOpRule(row.like));
    CHECK(FindOpRule(row.op).name != row.op);
  }
}

TEST_CASE("a file's name for an operator stays where both run alike") {
  CHECK(NamedBy("aten.__and__.Tensor", "logical_and") == "__and__");
  CHECK(NamedBy("aten.eq.Scalar", "ge") == "eq");
  CHECK(NamedBy("aten.upsample_bilinear2d.vec", "upsample_nearest2d") == "upsample_bilinear2d");
  CHECK(NamedBy("aten.relu.default", "logical_and") == "logical_and");
  CHECK(NamedBy("", "ceil") == "ceil");
}

// "grad" alone, or grad * 1, in derivatives.yaml: what broadcasting needs summed is the engine's.
TEST_CASE("the incoming gradient itself is that of sums and copies alone") {
  const std::set<std::pair<std::string_view, int>> expected = {{"add", 0},
                                                               {"add", 1},
                                                               {"sub", 0},
                                                               {"addcmul", 0},
                                                               {"addcdiv", 0},
                                                               {"addbmm", 0},
                                                               {"addmv", 0},
                                                               {"addr", 0},
                                                               {"add_", 0},
                                                               {"add_", 1},
                                                               {"addmm", 0},
                                                               {"baddbmm", 0},
                                                               {"clone", 0},
                                                               {"all_reduce", 0},
                                                               {"as_distributed", 0},
                                                               {"addmm_of_rows", 0},
                                                               {"expand", 0},
                                                               {"add.Scalar", 0},
                                                               {"scatter_add", 0},
                                                               {"remainder", 0},
                                                               {"index_add", 0},
                                                               {"index_add.alpha", 0},
                                                               {"index_put.accumulate", 0},
                                                               {"put.accumulate", 0}};
  for (const auto family : AllOpRules()) {
    for (const OpRule& listed : family) {
      const OpRule& rule = FindOpRule(listed.name);
      for (int i = 0; i < kMaxInputSlots; ++i) {
        CAPTURE(std::string(rule.name));
        CAPTURE(i);
        const bool passes = GradientOf(rule, i).form == Gradient::Form::kPassThrough;
        CHECK(passes == expected.contains({rule.name, i}));
      }
    }
  }
}

// derivatives.yaml; torch 2.11 events: a new tensor for each that is wanted.
TEST_CASE("a mean squared error has gradients for both of what it compares") {
  CHECK(GradientOf(FindOpRule("mse_loss"), 0).form != Gradient::Form::kNone);
  CHECK(GradientOf(FindOpRule("mse_loss"), 1).form != Gradient::Form::kNone);
  CHECK(SavedForBackward(FindOpRule("mse_loss"), In(1)) == (In(0) | In(1)));
}

TEST_CASE("an operator without a row keeps everything") {
  CHECK_FALSE(HasOpRule("fused_something"));
  CHECK(FindOpRule("fused_something").keeps_everything);
}

}  // namespace
}  // namespace onnxfit::op_rule_test
