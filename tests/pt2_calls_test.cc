#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>

#include "estimator/pt2/call_rows.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::pt2_calls_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

constexpr char kNs[] = "torch.ops.aten.";

// One call on x [4, 8, 6, 6] and, where it takes them, w [8, 8, 3, 3] and v [8].
struct Row {
  const char* target;
  Arguments arguments;
  std::vector<int64_t> rest;  // of the result, behind the batch
  const char* train;
  const char* eval = nullptr;  // where it is another
};

std::string CallOf(const Row& row, Mode mode) {
  const std::string target = std::string(kNs) + row.target;
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 8, 3, 3}).Parameter("p_v", "v", {8}).Input("x", {8, 6, 6});
  builder.Make(target, "y", row.arguments, row.rest);
  return CallsOf(Made(builder.Return("y"), {.mode = mode, .loss = Loss::kMse}).program);
}

TEST_CASE("calls of ATen are rows of the operator table") {
  const Row rows[] = {
      {"conv2d.default",
       {{"input", Ref("x")},
        {"weight", Ref("p_w")},
        {"bias", Ref("p_v")},
        {"padding", Numbers({1, 1})}},
       {8, 6, 6},
       "convolution(x,w,v;1;0;1;1;1;1;1;1)"},
      {"conv2d.padding",
       {{"input", Ref("x")},
        {"weight", Ref("p_w")},
        {"padding", Text("same")},
        {"dilation", Numbers({2, 2})}},
       {8, 6, 6},
       "convolution(x,w;1;0;1;1;2;2;2;2)"},
      {"conv_transpose2d.input",
       {{"input", Ref("x")}, {"weight", Ref("p_w")}, {"stride", Numbers({2, 2})}},
       {8, 13, 13},
       "convolution(x,w;1;1;2;2;0;0;1;1)"},
      {"add.Tensor", {{"self", Ref("x")}, {"other", Ref("x")}}, {8, 6, 6}, "add(x,x)"},
      {"add.Tensor", {{"self", Ref("x")}, {"other", Number(1)}}, {8, 6, 6}, "add.Scalar(x)"},
      {"div.Tensor", {{"self", Ref("x")}, {"other", Real(2)}}, {8, 6, 6}, "mul.Scalar(x)"},
      {"concatenate.default",
       {{"tensors", List({Ref("x"), Ref("x")})}, {"dim", Number(-1)}},
       {8, 6, 12},
       "cat(x,x)"},
      {"diff.default", {{"self", Ref("x")}, {"n", Number(0)}}, {8, 6, 6}, "clone(x)"},
      {"prod.dim_int", {{"self", Ref("x")}, {"dim", Number(-1)}}, {8, 6}, "prod(x;3)"},
      {"linalg_vector_norm.default",
       {{"self", Ref("x")}, {"ord", Real(6)}},
       {8, 6},
       "norm.power(x)"},
      {"norm.ScalarOpt_dim", {{"self", Ref("x")}, {"p", Number(1)}}, {8, 6}, "norm.one(x)"},
      {"linalg_norm.default", {{"self", Ref("x")}}, {8, 6}, "linalg_vector_norm(x)"},
      {"linalg_norm.default",
       {{"self", Ref("x")}, {"ord", Number(1)}, {"dim", Numbers({-1})}},
       {8, 6},
       "norm.one(x)"},
      {"_weight_norm.default",
       {{"v", Ref("x")}, {"g", Ref("p_v")}, {"dim", Number(0)}},
       {8, 6},
       "_weight_norm(x,v)"},
      {"nanmean.default",
       {{"self", Ref("x")}},
       {8, 6},
       "isnan(x) sum(y.isnan) nansum(x) div(y.sum,y.count)"},
      {"cosine_similarity.default",
       {{"x1", Ref("x")}, {"x2", Ref("x")}, {"dim", Number(-1)}},
       {8, 6},
       "cosine_similarity(x,x;3)"},
      {"cosine_embedding_loss.default",
       {{"input1", Ref("x")}, {"input2", Ref("x")}, {"target", Ref("p_v")}},
       {},
       "cosine_embedding_loss(x,x,v;1)"},
      {"cdist.default", {{"x1", Ref("x")}, {"x2", Ref("x")}}, {8, 6, 6}, "cdist(x,x;0)"},
      {"cdist.default",
       {{"x1", Ref("x")}, {"x2", Ref("x")}, {"compute_mode", Number(1)}},
       {8, 6, 6},
       "_euclidean_dist(x,x;0)"},
      {"embedding_bag.padding_idx",
       {{"weight", Ref("x")},
        {"indices", Ref("p_v")},
        {"offsets", Ref("p_v")},
        {"mode", Number(2)}},
       {6},
       "embedding_bag(x,v,v;2)"},
      {"cross.default", {{"self", Ref("x")}, {"other", Ref("x")}}, {8, 6, 6}, "cross(x,x)"},
      {"tensordot.default",
       {{"self", Ref("x")},
        {"other", Ref("p_w")},
        {"dims_self", Numbers({1})},
        {"dims_other", Numbers({0})}},
       {6, 6, 8, 3, 3},
       "permute(x;0;2;3;1) view(y.permute) permute(w;0;1;2;3) view(y.permute) mm(y.view,y.view) "
       "view(y.mm)"},
      {"relu.default", {{"self", Ref("x")}}, {8, 6, 6}, "relu(x)"},
      {"one_hot.default",
       {{"self", Ref("x")}, {"num_classes", Number(3)}},
       {8, 6, 6, 3},
       "one_hot(x)"},
      {"im2col.default",
       {{"self", Ref("x")}, {"kernel_size", Numbers({2, 2})}},
       {32, 25},
       "im2col(x)"},
      {"col2im.default",
       {{"self", Ref("x")}, {"kernel_size", Numbers({2, 2})}},
       {2, 7, 7},
       "col2im(x)"},
      {"grid_sampler.default",
       {{"input", Ref("x")}, {"grid", Ref("x")}, {"align_corners", Bool(true)}},
       {8, 6, 6},
       "grid_sampler(x,x;1)"},
      {"grid_sampler.default",
       {{"input", Ref("x")}, {"grid", Ref("x")}, {"padding_mode", Number(1)}},
       {8, 6, 6},
       "grid_sampler(x,x;0)"},
      {"fmod.Scalar", {{"self", Ref("x")}, {"other", Real(2)}}, {8, 6, 6}, "fmod(x)"},
      {"log10.default", {{"self", Ref("x")}}, {8, 6, 6}, "log10(x)"},
      {"asinh.default", {{"self", Ref("x")}}, {8, 6, 6}, "asinh(x)"},
      {"rsub.Tensor", {{"self", Ref("x")}, {"other", Ref("x")}}, {8, 6, 6}, "sub(x,x)"},
      {"true_divide.Tensor", {{"self", Ref("x")}, {"other", Ref("x")}}, {8, 6, 6}, "div(x,x)"},
      {"div.Tensor_mode",
       {{"self", Ref("x")}, {"other", Ref("x")}, {"rounding_mode", Text("floor")}},
       {8, 6, 6},
       "div.Tensor_mode(x,x)"},
      {"clamp.Tensor",
       {{"self", Ref("x")}, {"min", Ref("x")}, {"max", Ref("x")}},
       {8, 6, 6},
       "clamp.Tensor(x,x,x)"},
      {"clamp.Tensor", {{"self", Ref("x")}, {"max", Ref("x")}}, {8, 6, 6}, "clamp_max.Tensor(x,x)"},
      {"xlogy.Tensor", {{"self", Ref("x")}, {"other", Ref("x")}}, {8, 6, 6}, "xlogy(x,x)"},
      {"special_exp2.default", {{"self", Ref("x")}}, {8, 6, 6}, "exp2(x)"},
      {"special_ndtr.default",
       {{"self", Ref("x")}},
       {8, 6, 6},
       "mul.Scalar(x) erf(y.mul.Scalar) add.Scalar(y.erf) mul.Scalar(y.add.Scalar)"},
      {"float_power.Tensor_Scalar",
       {{"self", Ref("x")}, {"exponent", Real(2)}},
       {8, 6, 6},
       "to(x) pow.Tensor_Scalar(y.to)"},
      {"threshold.default",
       {{"self", Ref("x")}, {"threshold", Real(1)}, {"value", Real(0)}},
       {8, 6, 6},
       "threshold(x)"},
      {"l1_loss.default",
       {{"self", Ref("x")}, {"target", Ref("x")}, {"reduction", Number(0)}},
       {8, 6, 6},
       "l1_loss(x,x;0)"},
      {"smooth_l1_loss.default",
       {{"self", Ref("x")}, {"target", Ref("x")}},
       {8, 6, 6},
       "smooth_l1_loss(x,x;1)"},
      {"smooth_l1_loss.default",
       {{"self", Ref("x")}, {"target", Ref("x")}, {"beta", Real(0)}},
       {8, 6, 6},
       "l1_loss(x,x;1)"},
      {"kl_div.default",
       {{"self", Ref("x")}, {"target", Ref("x")}, {"log_target", Bool(true)}},
       {8, 6, 6},
       "kl_div(x,x;1;1)"},
      {"cross_entropy_loss.default",
       {{"self", Ref("x")}, {"target", Ref("x")}},
       {8, 6, 6},
       "cross_entropy_loss(x,x;0)"},
      {"cross_entropy_loss.default",
       {{"self", Ref("x")}, {"target", Ref("x")}, {"label_smoothing", Real(0.1)}},
       {8, 6, 6},
       "?(x,x)"},
      {"softshrink.default", {{"self", Ref("x")}}, {8, 6, 6}, "softshrink(x)"},
      {"relu_.default", {{"self", Ref("x")}}, {8, 6, 6}, "relu!(x)"},
      {"mul_.Scalar", {{"self", Ref("x")}, {"other", Real(2)}}, {8, 6, 6}, "mul.Scalar!(x)"},
      {"mul_.Tensor", {{"self", Ref("x")}, {"other", Real(2)}}, {8, 6, 6}, ""},
      {"dropout.default",
       {{"input", Ref("x")}, {"p", Real(0.5)}, {"train", Bool(false)}},
       {8, 6, 6},
       "dropout(x)",
       ""},
      {"native_dropout.default",
       {{"input", Ref("x")}, {"p", Real(0.5)}, {"train", Bool(true)}},
       {8, 6, 6},
       "dropout(x)",
       ""},
      {"_native_batch_norm_legit_functional.default",
       {{"input", Ref("x")},
        {"weight", Ref("p_v")},
        {"bias", Ref("p_v")},
        {"running_mean", Ref("p_v")},
        {"running_var", Ref("p_v")},
        {"training", Bool(true)}},
       {8, 6, 6},
       "batch_norm(x,v,v,v,v)",
       "batch_norm_inference(x,v,v,v,v)"},
      {"native_layer_norm.default",
       {{"input", Ref("x")}, {"normalized_shape", Numbers({6})}},
       {8, 6, 6},
       "layer_norm(x;1)"},
      {"native_group_norm.default",
       {{"input", Ref("x")}, {"weight", Ref("p_v")}, {"bias", Ref("p_v")}, {"group", Number(2)}},
       {8, 6, 6},
       "group_norm(x,v,v;2)"},
      {"any.dim", {{"self", Ref("x")}, {"dim", Number(-1)}}, {8, 6}, "any(x)"},
      {"dropout.default",
       {{"input", Ref("x")}, {"p", Real(0)}, {"train", Bool(true)}},
       {8, 6, 6},
       ""},
      {"dropout_.default",
       {{"input", Ref("x")}, {"p", Real(0.1)}, {"train", Bool(true)}},
       {8, 6, 6},
       "dropout_!(x)",
       ""},
      {"adaptive_avg_pool2d.default",
       {{"self", Ref("x")}, {"output_size", Numbers({1, 1})}},
       {8, 1, 1},
       "adaptive_avg_pool2d(x)"},
      {"adaptive_avg_pool2d.default",
       {{"self", Ref("x")}, {"output_size", Numbers({3, 3})}},
       {8, 3, 3},
       "adaptive_avg_pool2d(x)"},
      {"flatten.using_ints", {{"self", Ref("x")}, {"start_dim", Number(1)}}, {288}, "view(x)"},
      {"transpose.int",
       {{"self", Ref("x")}, {"dim0", Number(1)}, {"dim1", Number(-1)}},
       {6, 6, 8},
       "permute(x;0;3;2;1)"},
      {"permute.default",
       {{"self", Ref("x")}, {"dims", Numbers({0, 2, 3, -3})}},
       {6, 6, 8},
       "permute(x;0;2;3;1)"},
      {"select.int",
       {{"self", Ref("x")}, {"dim", Number(-1)}, {"index", Number(0)}},
       {8, 6},
       "select(x;3)"},
      {"slice.Tensor",
       {{"self", Ref("x")}, {"dim", Number(2)}, {"step", Number(2)}},
       {8, 3, 6},
       "slice(x;2;2)"},
      {"stack.default",
       {{"tensors", List({Ref("x"), Ref("x")})}, {"dim", Number(1)}},
       {2, 8, 6, 6},
       "view(x) view(x) cat(y.unsqueezed,y.unsqueezed)"},
      {"clamp.default",
       {{"self", Ref("x")}, {"min", Real(0)}, {"max", Real(1)}},
       {8, 6, 6},
       "clamp(x)"},
      {"clamp.default", {{"self", Ref("x")}, {"min", Real(0)}}, {8, 6, 6}, "clamp_min(x)"},
      {"fft_rfft.default", {{"self", Ref("x")}}, {8, 6, 4}, "_fft_r2c(x)"},
      {"fft_rfft.default",
       {{"self", Ref("x")}, {"n", Number(8)}},
       {8, 6, 5},
       "pad(x) _fft_r2c(y.pad)"},
      {"fft_rfft.default",
       {{"self", Ref("x")}, {"n", Number(4)}},
       {8, 6, 3},
       "slice(x;3;1) _fft_r2c(y.slice)"},
      {"fft_rfft.default", {{"self", Ref("x")}, {"dim", Number(1)}}, {5, 6, 6}, "_fft_r2c(x;1)"},
      {"fft_rfft2.default", {{"self", Ref("x")}}, {8, 6, 4}, "_fft_r2c(x)"},
      {"fft_rfft2.default",
       {{"self", Ref("x")}, {"dim", Numbers({1, -2})}},
       {8, 4, 6},
       "_fft_r2c(x;1;2)"},
      {"fft_rfftn.default", {{"self", Ref("x")}, {"s", Numbers({6, 6})}}, {8, 6, 4}, "_fft_r2c(x)"},
      {"fft_irfft2.default",
       {{"self", Ref("x")}, {"s", Numbers({6, 10})}},
       {8, 6, 10},
       "_to_copy(x) _fft_c2r(y.complex)"},
      {"fft_irfftn.default",
       {{"self", Ref("x")}, {"s", Numbers({8, 10})}},
       {8, 8, 10},
       "_to_copy(x) pad(y.complex) _fft_c2r(y.pad)"},
      {"fft_irfft.default", {{"self", Ref("x")}}, {8, 6, 10}, "_to_copy(x) _fft_c2r(y.complex)"},
      {"fft_fft.default", {{"self", Ref("x")}}, {8, 6, 6}, "_fft_r2c(x)"},
      {"fft_fft2.default", {{"self", Ref("x")}}, {8, 6, 6}, "_to_copy(x) _fft_c2c(y.complex)"},
      {"fft_fftn.default", {{"self", Ref("x")}}, {8, 6, 6}, "_to_copy(x) _fft_c2c(y.complex)"},
      {"fft_ifft2.default", {{"self", Ref("x")}}, {8, 6, 6}, "_to_copy(x) _fft_c2c(y.complex)"},
      {"fft_ifftn.default",
       {{"self", Ref("x")}, {"dim", Numbers({3, 2})}},
       {8, 6, 6},
       "_to_copy(x) _fft_c2c(y.complex;3;2)"},
      {"pad.default", {{"self", Ref("x")}, {"mode", Text("reflect")}}, {8, 8, 8}, "pad.reflect(x)"},
      {"pad.default",
       {{"self", Ref("x")}, {"mode", Text("replicate")}},
       {8, 8, 8},
       "pad.copies(x)"},
      {"clone.default",
       {{"self", Ref("x")}, {"memory_format", Text("contiguous_format")}},
       {8, 6, 6},
       "clone(x;1)"},
      {"detach.default", {{"self", Ref("x")}}, {8, 6, 6}, ""},
      {"movedim.int",
       {{"self", Ref("x")}, {"source", Numbers({1})}, {"destination", Numbers({-1})}},
       {6, 6, 8},
       "permute(x;0;2;3;1)"},
      {"swapaxes.default",
       {{"self", Ref("x")}, {"axis0", Number(1)}, {"axis1", Number(3)}},
       {6, 6, 8},
       "permute(x;0;3;2;1)"},
      {"roll.default", {{"self", Ref("x")}, {"shifts", Numbers({1, 2})}}, {8, 6, 6}, "roll(x;2)"},
      {"square.default", {{"self", Ref("x")}}, {8, 6, 6}, "square(x)"},

      // Views by other names.
      {"broadcast_to.default", {{"self", Ref("x")}}, {8, 6, 6}, "expand(x)"},
      {"mT.default", {{"self", Ref("x")}}, {8, 6, 6}, "permute(x;0;1;3;2)"},
      {"positive.default", {{"self", Ref("x")}}, {8, 6, 6}, ""},
      {"real.default", {{"self", Ref("x")}}, {8, 6, 6}, ""},
      {"imag.default", {{"self", Ref("x")}}, {8, 6, 6}, ""},
      {"fliplr.default", {{"self", Ref("x")}}, {8, 6, 6}, "flip(x)"},
      {"rot90.default",
       {{"self", Ref("x")}, {"dims", Numbers({2, -1})}},
       {8, 6, 6},
       "flip(x) permute(y.flipped;0;1;3;2)"},
      {"fft_fftshift.default", {{"self", Ref("x")}}, {8, 6, 6}, "roll(x;4)"},
      {"unfold.default",
       {{"self", Ref("x")}, {"dimension", Number(2)}, {"size", Number(3)}, {"step", Number(1)}},
       {8, 4, 6, 3},
       "unfold(x;2;3;1)"},
      {"diagonal.default",
       {{"self", Ref("x")}, {"dim1", Number(-2)}, {"dim2", Number(-1)}},
       {8, 6},
       "diagonal(x;2;3)"},
      {"diag_embed.default", {{"self", Ref("x")}}, {8, 6, 6, 6}, "diag_embed(x;3;4)"},
      {"hstack.default", {{"tensors", List({Ref("x"), Ref("x")})}}, {16, 6, 6}, "cat(x,x)"},

      // Copies of views are clones of them.
      {"permute_copy.default",
       {{"self", Ref("x")}, {"dims", Numbers({0, 2, 3, 1})}},
       {6, 6, 8},
       "permute(x;0;2;3;1) clone(y)"},
      {"frobnicate_copy.default", {{"self", Ref("x")}}, {8, 6, 6}, "?(x)"},

      // Writes at indices, and parts.
      {"index_copy.default",
       {{"self", Ref("x")}, {"dim", Number(0)}, {"index", Ref("x")}, {"source", Ref("x")}},
       {8, 6, 6},
       "index_copy(x,x,x)"},
      {"index_add.default",
       {{"self", Ref("x")}, {"index", Ref("x")}, {"source", Ref("x")}, {"alpha", Number(2)}},
       {8, 6, 6},
       "index_add.alpha(x,x,x)"},
      {"baddbmm.default",
       {{"self", Ref("x")}, {"batch1", Ref("x")}, {"batch2", Ref("x")}, {"alpha", Real(.5)}},
       {8, 6, 6},
       "baddbmm(x,x,x;1)"},
      {"baddbmm.default",
       {{"self", Ref("x")}, {"batch1", Ref("x")}, {"batch2", Ref("x")}, {"alpha", Real(1)}},
       {8, 6, 6},
       "baddbmm(x,x,x)"},
      {"index_put.default",
       {{"self", Ref("x")}, {"indices", List({Ref("x")})}, {"values", Ref("p_v")}},
       {8, 6, 6},
       "index_put(x,v,x)"},
      {"index_put.default",
       {{"self", Ref("x")},
        {"indices", List({Ref("x")})},
        {"values", Ref("p_v")},
        {"accumulate", Bool(true)}},
       {8, 6, 6},
       "index_put.accumulate(x,v,x)"},
      {"index_put_.default",  // in place, and no gradient flows
       {{"self", Ref("x")}, {"indices", List({Ref("x")})}, {"values", Ref("x")}},
       {8, 6, 6},
       ""},
      {"scatter_reduce.two",
       {{"self", Ref("x")},
        {"index", Ref("x")},
        {"src", Ref("x")},
        {"reduce", Text("amax")},
        {"include_self", Bool(false)}},
       {8, 6, 6},
       "scatter_reduce(x,x,x;2;0)"},
      {"masked_fill.Tensor",
       {{"self", Ref("x")}, {"mask", Ref("x")}, {"value", Ref("x")}},
       {8, 6, 6},
       "masked_fill(x,x)"},
      {"masked_fill.Tensor",  // a value with a gradient
       {{"self", Ref("x")}, {"mask", Ref("x")}, {"value", Ref("p_v")}},
       {8, 6, 6},
       "masked_fill.Tensor(x,x,v)"},
      {"take_along_dim.default",
       {{"self", Ref("x")}, {"indices", Ref("x")}, {"dim", Number(1)}},
       {8, 6, 6},
       "remainder(x) expand(x) expand(y.indices) gather(y.self,y.broadcast)"},
      {"select_scatter.default",
       {{"self", Ref("x")}, {"src", Ref("x")}, {"dim", Number(-1)}},
       {8, 6, 6},
       "select_scatter(x,x;3)"},
      {"pad.default",
       {{"self", Ref("x")}, {"pad", Numbers({1, 2})}, {"mode", Text("circular")}},
       {8, 6, 9},
       "pad.circular(x;1;2)"},
      {"alpha_dropout.default",
       {{"input", Ref("x")}, {"p", Real(0.5)}, {"train", Bool(true)}},
       {8, 6, 6},
       "bernoulli(x) add.Scalar(y.noise) alpha_dropout(x,y.noise,y.shift)",
       ""},
      {"feature_dropout.default",
       {{"input", Ref("x")}, {"p", Real(0.5)}, {"train", Bool(true)}},
       {8, 6, 6},
       "bernoulli(x) mul(x,y.noise)",
       ""},
      {"einsum.default",
       {{"equation", Text("nchw -> nhwc")}, {"tensors", List({Ref("x")})}},
       {6, 6, 8},
       "einsum_operand(x) permute(y.einsum_operand;0;2;3;1)"},
      {"einsum.default",
       {{"equation", Text("nchw,nchk->nhwk")}, {"tensors", List({Ref("x"), Ref("x")})}},
       {6, 6, 6},
       "einsum_operand(x) einsum_operand(x) permute(y.einsum_operand;0;2;3;1) view(y.permute) "
       "permute(y.einsum_operand;0;2;1;3) view(y.permute) bmm(y.view,y.view) "
       "view(y.bmm)"},
      {"einsum.default",
       {{"equation", Text("nchw,nckw->nhk")}, {"tensors", List({Ref("x"), Ref("x")})}},
       {6, 6},
       "einsum_operand(x) einsum_operand(x) permute(y.einsum_operand;0;2;1;3) view(y.permute) "
       "permute(y.einsum_operand;0;1;3;2) view(y.permute) bmm(y.view,y.view) "
       "view(y.bmm)"},
      {"einsum.default",
       {{"equation", Text("nc...->n...c")}, {"tensors", List({Ref("x")})}},
       {6, 6, 8},
       "einsum_operand(x) permute(y.einsum_operand;0;2;3;1)"},
      {"einsum.default",
       {{"equation", Text("nnhw->nhw")}, {"tensors", List({Ref("x")})}},
       {8, 6, 6},
       "?(x)"},
      {"frobnicate.default", {{"self", Ref("x")}}, {8, 6, 6}, "?(x)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.target);
    CHECK(CallOf(row, Mode::kEval) == (row.eval == nullptr ? row.train : row.eval));
    if (std::string(row.train).find("(x") == std::string::npos) continue;  // nothing to train
  }
}

// ints as RecurrentInts makes them: gates, input, hidden and projected numbers, layers, directions,
// whether there are biases, the batch comes first and something drops out, then of packed steps.
TEST_CASE("what writes into a tensor that it is given makes none") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 8}).Input("x", {8}).FixedInput("z", {8, 8});
  builder.MakeFixed("torch.ops.aten.div.out", "y",
                    {{"self", Ref("p_w")}, {"other", Ref("p_w")}, {"out", Ref("z")}}, {8, 8});
  builder.MakeFixed("torch.ops.aten.relu.default", "r", {{"self", Ref("y")}}, {8, 8});
  CHECK(CallsOf(Made(builder.Return("r"), {.mode = Mode::kEval}).program) == "relu(z)");
}

TEST_CASE("a recurrent module is one call") {
  const auto call = [](const char* target, std::vector<std::pair<std::string_view, Argument>> more,
                       const Dims& x) {
    ExportedBuilder builder;
    builder.Parameter("a", "a", {12, 5}).Parameter("b", "b", {12, 4});
    builder.Parameter("c", "c", {12, 4}).Parameter("d", "d", {12, 4});
    builder.Input("x", x).Input("h", {3, 4}).Input("n", {});
    std::vector<std::pair<std::string_view, Argument>> arguments = {
        {"hx", Ref("h")}, {"params", List({Ref("a"), Ref("b"), Ref("c"), Ref("d")})}};
    arguments.insert(arguments.end(), more.begin(), more.end());
    builder.Make(target, "y", arguments, {7, 4});
    return CallsOf(Made(builder.Return("y"), {.loss = Loss::kMse}).program);
  };
  CHECK(call("torch.ops.aten.gru.input",
             {{"input", Ref("x")},
              {"has_biases", Bool(false)},
              {"num_layers", Number(2)},
              {"dropout", Real(0.5)}},
             {7, 5}) == "gru(x,h,none,a,b,c,d;3;5;4;0;2;1;0;0;1;0;0;0)");
  CHECK(call("torch.ops.aten.gru.data",
             {{"data", Ref("x")}, {"batch_sizes", Ref("n")}, {"num_layers", Number(1)}},
             {5}) == "gru(x,h,none,a,b,c,d;3;5;4;0;1;1;1;0;0;0;4;3)");
}

TEST_CASE("asserts and sizes run on the host") {
  for (const char* target : {"torch.ops.aten._assert_tensor_metadata.default",
                             "torch.ops.aten.sym_size.int", "_operator.mul"}) {
    CAPTURE(target);
    CHECK(RunsOnHost(target));
  }
  CHECK_FALSE(RunsOnHost("torch.ops.aten.add.Tensor"));
}

// torch.where with a number makes a tensor of it first.
TEST_CASE("a number that is chosen is a tensor on the device") {
  ExportedBuilder builder;
  builder.Input("x", {8}).Input("m", {8}, DType::kBool);
  builder.Make("torch.ops.aten.where.ScalarOther", "y",
               {{"condition", Ref("m")}, {"self", Ref("x")}, {"other", Real(-1)}}, {8});
  CHECK(CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program) ==
        "constant() where(m,x,y.other)");
}

// An fp32 export has the same number for both.
// torchvision's stochastic depth: the noise has x's type, and no gradient.
TEST_CASE("noise that is scaled in place stays where it is") {
  ExportedBuilder builder;
  builder.Parameter("w", "w", {6}).Input("x", {6});
  builder.Make("torch.ops.aten.mul.Tensor", "h", {{"self", Ref("x")}, {"other", Ref("w")}}, {6});
  builder.Make("torch.ops.aten.empty_like.default", "n", {{"self", Ref("h")}}, {6});
  builder.Make("torch.ops.aten.bernoulli_.float", "b", {{"self", Ref("n")}, {"p", Real(0.8)}}, {6});
  builder.Make("torch.ops.aten.div_.Tensor", "d", {{"self", Ref("b")}, {"other", Real(0.8)}}, {6});
  builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("h")}, {"other", Ref("d")}}, {6});
  CHECK(CallsOf(Made(builder.Return("y")).program) == "mul(x,w) bernoulli(h) mul(h,n)");
}

// torch.empty(1).uniform_(a, b).exp()
TEST_CASE("numbers that are drawn into a tensor stay there") {
  ExportedBuilder builder;
  builder.Input("x", {6});
  builder.MakeFixed("torch.ops.aten.empty.memory_format", "n", {{"size", Numbers({1})}}, {1});
  builder.MakeFixed("torch.ops.aten.uniform_.default", "u",
                    {{"self", Ref("n")}, {"from", Real(-1)}, {"to", Real(1)}}, {1});
  builder.MakeFixed("torch.ops.aten.exp.default", "e", {{"self", Ref("u")}}, {1});
  builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("e")}}, {6});
  const Program program = Made(builder.Return("y"), {.mode = Mode::kEval}).program;
  CHECK(CallsOf(program).find("exp(n) mul(x,e)") != std::string::npos);
}

TEST_CASE("a vector of nothing joins any other") {
  ExportedBuilder builder;
  builder.Input("x", {6}).FixedInput("nothing", {0});
  builder.Make("torch.ops.aten.cat.default", "y",
               {{"tensors", List({Ref("nothing"), Ref("x")})}, {"dim", Number(1)}}, {6});
  CHECK(CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program) == "cat(x)");
}

TEST_CASE("what libraries compute outside of autocast leaves it") {
  const auto leaves = [](const char* file, const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {6}).At(file, 9, line);
    builder.Make("torch.ops.aten.cos.default", "y", {{"self", Ref("x")}}, {6});
    return Made(builder.Return("y"), {.mode = Mode::kEval}).program.calls[0].leaves_autocast;
  };
  constexpr char kLlama[] = "transformers/models/llama/modeling_llama.py";
  constexpr char kVit[] = "timm/models/efficientvit_mit.py";
  CHECK(leaves(kLlama, "cos = emb.cos() * self.attention_scaling"));
  CHECK_FALSE(leaves(kLlama, "x = cos(emb)"));
  CHECK(leaves("transformers/models/hy_v4/modeling_hy_v4.py", "mixes = F.linear(flat, self.fn)"));
  CHECK(leaves(kVit, "out = self._attn(q, k, v)"));
  CHECK_FALSE(leaves("net.py", "out = self._attn(q, k, v)"));
}

TEST_CASE("a move to a device keeps the type that a tensor has in the run") {
  const auto calls = [](const char* target) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8, 8}).Input("x", {6, 8});
    builder.Make("torch.ops.aten.linear.default", "h",
                 {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {6, 8});
    builder.Make(target, "moved", {{"self", Ref("h")}, {"dtype", Text("float32")}}, {6, 8});
    builder.Make("torch.ops.aten.relu.default", "y", {{"self", Ref("moved")}}, {6, 8});
    const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("torch.ops.aten.to.dtype_layout") == "linear(x,w) relu(h)");
  CHECK(calls("torch.ops.aten.to.dtype") == "linear(x,w) to(h) relu(moved)");
}

// "args = _cast_if_autocast_enabled(…)", then "with torch.autocast(…, enabled=False)".
TEST_CASE("what a library casts to autocast's type itself runs in that") {
  const auto calls = [](const char* line, Precision precision) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8}).Input("x", {6, 8});
    builder.At("transformers/models/nemotron/modeling_nemotron.py", 9, line);
    builder.Make(
        "torch.ops.aten.layer_norm.default", "y",
        {{"input", Ref("x")}, {"normalized_shape", List({Number(8)})}, {"weight", Ref("p_w")}},
        {6, 8});
    return CallsOf(
        Made(builder.Return("y"), {.precision = precision, .mode = Mode::kEval}).program);
  };
  constexpr char kLine[] = "return F.layer_norm(*args)";
  CHECK(calls(kLine, Precision::kAmpBf16) == "to(x) to(w) layer_norm(x.cast,w.cast;1)");
  CHECK(calls(kLine, Precision::kFp32) == "layer_norm(x,w;1)");
  CHECK(calls("return F.layer_norm(x)", Precision::kAmpBf16) == "layer_norm(x,w;1)");
}

// "if self.weight.dtype in [torch.float16, torch.bfloat16]:", which no export in fp32 has.
TEST_CASE("what a norm's weight is multiplied with has its type") {
  const auto calls = [](const char* file, const char* type, const char* first, const char* second) {
    ExportedBuilder builder;
    builder.Parameter("p_v", "v", {8}).Input("x", {6, 8}).In("norm", type);
    builder.At(file, 3, "hidden_states = hidden_states * torch.rsqrt(variance + self.eps)");
    builder.Make("torch.ops.aten.mul.Tensor", "h", {{"self", Ref("x")}, {"other", Ref("x")}},
                 {6, 8});
    builder.At(file, 9, second);
    const bool is_behind = std::string(first) == "h";
    builder.Make("torch.ops.aten.mul.Tensor", "y",
                 {{"self", Ref(first)}, {"other", Ref(is_behind ? "p_v" : "h")}}, {6, 8});
    return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
  };
  constexpr char kT5[] = "transformers/models/t5/modeling_t5.py";
  constexpr char kNorms[] = "diffusers/models/normalization.py";
  constexpr char kType[] = "diffusers.models.normalization.RMSNorm";
  constexpr char kLine[] = "hidden_states = hidden_states * self.weight";
  CHECK(calls(kT5, "", "p_v", "return self.weight * hidden_states") ==
        "mul(x,x) type_as(h,v) mul(v,h.cast)");
  CHECK(calls(kNorms, kType, "h", kLine) == "mul(x,x) type_as(h,v) mul(h.cast,v)");
  CHECK(calls(kNorms, "diffusers.models.normalization.MochiRMSNorm", "h", kLine) ==
        "mul(x,x) mul(h,v)");
}

// "if hidden_states.dtype != self.wo.weight.dtype:", as under autocast.
TEST_CASE("what a layer of T5's is passed has the type of its weight") {
  const auto calls = [](const char* file, const char* line) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "wo.weight", {4, 8}).Input("x", {8});
    builder.Make("torch.ops.aten.linear.default", "y",
                 {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {4});
    pt2::Call& call = builder.program().graph.calls.back();
    call.modules = {{.path = "ff"}, {.path = "ff.wo"}};
    call.lines = {{.file = file, .line = 9, .text = line}, {.line = 3, .text = "return f(x)"}};
    const Program program = Made(builder.Return("y"), {.mode = Mode::kEval}).program;
    return CallsOf(program) + " of " + program.modules.PathOf(program.calls[0].module);
  };
  constexpr char kT5[] = "transformers/models/t5/modeling_t5.py";
  constexpr char kLine[] = "hidden_states = self.wo(hidden_states)";
  CHECK(calls(kT5, kLine) == "type_as(x,wo.weight) linear(x.cast,wo.weight) of ff");
  CHECK(calls(kT5, "y = self.wo(x)") == "linear(x,wo.weight) of ff.wo");
  CHECK(calls("net.py", kLine) == "linear(x,wo.weight) of ff.wo");
}

TEST_CASE("a cast that the code spells is one in 16 bits, too") {
  const auto calls = [](const char* first, const char* second) {
    ExportedBuilder builder;
    builder.Parameter("p_v", "v", {8}).Input("x", {8});
    builder.At("net.py", 3, first);
    builder.Make("torch.ops.aten.to.dtype", "to", {{"self", Ref("x")}, {"dtype", Text("float32")}},
                 {8});
    builder.At("net.py", 4, second);
    builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("to")}, {"other", Ref("p_v")}},
                 {8});
    const Program program =
        Made(builder.Return("y"), {.precision = Precision::kBf16, .mode = Mode::kEval}).program;
    const NameId cast = program.calls[0].outputs[0];
    return std::string(Name(program.values[static_cast<size_t>(cast)].type.dtype)) + " " +
           CallsOf(program);
  };
  CHECK(calls("x = x.to(torch.float32)", "return x * self.v") == "float32 to(x) mul(to,v)");
  CHECK(calls("x = x.float() if cast else None", "return x * self.v") == "float32 to(x) mul(to,v)");
  CHECK(calls("x = x.to(dtype)", "return x * self.v") == "bfloat16 to(x) mul(to,v)");
  CHECK(calls("y = f(x.to(torch.float))", "return x * self.v") == "float32 to(x) mul(x,v)");
  CHECK(calls("x = x.to(torch.float16)", "return x * self.v") == "bfloat16 to(x) mul(to,v)");
  // The tracer calls x by the cast's name, which the code does not.
  CHECK(calls("y = x.to(torch.float32).mean()", "return x * self.v") == "float32 to(x) mul(x,v)");
}

// "self.norm(x.to(dtype=self.norm.weight.dtype))" of a stream in fp32, which the code goes on with.
TEST_CASE("what a module's argument was cast from is read behind it") {
  for (const char* line : {"x = h.to(torch.float32)", "x = h.to(dtype=torch.float32)",
                           "x = h.type(torch.float32)", "x = h.float()"}) {
    CAPTURE(line);
    ExportedBuilder builder;
    builder.Input("h", {8}).At("net.py", 3, line);
    const auto cast = [&](const char* from, const char* to) {
      builder.Make("torch.ops.aten.to.dtype", to, {{"self", Ref(from)}, {"dtype", Text("float32")}},
                   {8});
    };
    cast("h", "wide");
    builder.At("net.py", 4, "y = self.norm(x.to(dtype=self.norm.weight.dtype))");
    cast("wide", "narrow");
    cast("narrow", "normed");
    builder.Make("torch.ops.aten.cos.default", "y", {{"self", Ref("normed")}}, {8});
    builder.At("net.py", 5, "x = x + y");
    builder.Make("torch.ops.aten.add.Tensor", "z", {{"self", Ref("normed")}, {"other", Ref("y")}},
                 {8});
    const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
    CHECK(CallsOf(Made(builder.Return("z"), settings).program) ==
          "to(h) to(wide) to(narrow) cos(normed) add(wide,y)");
  }
}

// The type of the last result, of a run in bf16.
std::string TypeOfLast(ExportedBuilder& builder, const char* name) {
  const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
  const Program program = Made(builder.Return(name), settings).program;
  const NameId made = program.calls.back().outputs[0];
  return std::string(Name(program.values[static_cast<size_t>(made)].type.dtype));
}

TEST_CASE("numbers are made in fp32 where no type is given, or that one") {
  const auto type = [](const char* line, bool is_given) {
    ExportedBuilder builder;
    builder.Input("x", {6}).At("net.py", 3, line);
    Arguments arguments = {{"end", Number(6)}};
    if (is_given) arguments.push_back({"dtype", Text("float32")});
    builder.MakeFixed("torch.ops.aten.arange.default", "y", arguments, {6});
    return TypeOfLast(builder, "y");
  };
  CHECK(type("y = torch.arange(6.0)", false) == "float32");
  CHECK(type("y = torch.arange(6, dtype=torch.float32)", true) == "float32");
  CHECK(type("y = torch.arange(6, dtype=x.dtype)", true) == "bfloat16");
  CHECK(type("coords = get_patches_center_coordinates(", true) == "float32");
}

TEST_CASE("a sum that the code wants in fp32 is one in 16 bits, too") {
  const auto calls = [](const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {6}).At("net.py", 3, line);
    builder.Make("torch.ops.aten.sum.dim_IntList", "y",
                 {{"self", Ref("x")}, {"dim", Numbers({-1})}, {"dtype", Text("float32")}}, {});
    const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("y = torch.sum(x, dim=-1, dtype=torch.float32)") == "sum.dtype(x)");
  CHECK(calls("y = torch.sum(x, dim=-1, dtype=x.dtype)") == "sum(x)");
}

// "torch.rsqrt(x.float().square()).to(x.dtype)", whose x may be in fp32 in such a run.
TEST_CASE("a line that casts back to the type of what it has cast reads that") {
  const auto calls = [](const char* line) {
    ExportedBuilder builder;
    builder.Input("x", {6}).In("norm").At("net.py", 3, line);
    builder.Make("torch.ops.aten.to.dtype", "up", {{"self", Ref("x")}, {"dtype", Text("float32")}},
                 {6});
    builder.Make("torch.ops.aten.rsqrt.default", "r", {{"self", Ref("up")}}, {6});
    builder.Make("torch.ops.aten.to.dtype", "y", {{"self", Ref("r")}, {"dtype", Text("float32")}},
                 {6});
    const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("return torch.rsqrt(x.float()).to(x.dtype)") == "to(x) rsqrt(up) type_as(r,x)");
  CHECK(calls("return torch.rsqrt(x.float()).to(dtype)") == "to(x) rsqrt(up) to(r)");
}

// Qwen's norms of heads, whose input autocast has made of 16 bits.
TEST_CASE("a cast back to the type of the input reads it") {
  constexpr char kFile[] = "transformers/models/qwen3/modeling_qwen3.py";
  ExportedBuilder builder;
  builder.Input("x", {6}).In("q_norm");
  const auto cast = [&](const char* from, const char* to, const char* text) {
    builder.At(kFile, 9, text)
        .Make("torch.ops.aten.to.dtype", to, {{"self", Ref(from)}, {"dtype", Text("float32")}},
              {6});
  };
  cast("x", "h", "hidden_states = hidden_states.to(torch.float32)");
  cast("h", "y", "return self.weight * hidden_states.to(input_dtype)");
  const TrainingSettings settings = {.precision = Precision::kBf16, .mode = Mode::kEval};
  CHECK(CallsOf(Made(builder.Return("y"), settings).program) == "to(x) type_as(h,x)");
}

// "attn_weights = attn_weights.to(value.dtype)" of a helper, which autocast gives fp32.
TEST_CASE("autocast's weights are cast to the type of what they are multiplied with") {
  const auto calls = [](const char* line, Precision precision) {
    ExportedBuilder builder;
    builder.Input("q", {6, 6}).Input("v", {6, 6}).At("net.py", 3, line);
    builder.Make("torch.ops.aten.matmul.default", "s", {{"self", Ref("q")}, {"other", Ref("q")}},
                 {6, 6});
    builder.Make("torch.ops.aten.softmax.int", "w", {{"self", Ref("s")}, {"dim", Number(-1)}},
                 {6, 6});
    builder.Make("torch.ops.aten.to.dtype", "t", {{"self", Ref("w")}, {"dtype", Text("float32")}},
                 {6, 6});
    builder.Make("torch.ops.aten.matmul.default", "y", {{"self", Ref("t")}, {"other", Ref("v")}},
                 {6, 6});
    const TrainingSettings settings = {.precision = precision, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  const auto with = [](const std::string& cast) {
    return "matmul(q,q) softmax(s) " + cast + " matmul(t,v)";
  };
  CHECK(calls("y = self._attn(q, v)", Precision::kAmpBf16) == with("type_as(w,v)"));
  CHECK(calls("y, w = attention_interface(", Precision::kAmpBf16) == with("type_as(w,q)"));
  CHECK(calls("y = softmax(s.float(), dim=-1).to(v.dtype) @ v", Precision::kAmpBf16) ==
        with("type_as(w,v)"));
  CHECK(calls("y = softmax(s, dim=-1).float() @ v", Precision::kAmpBf16) == with("to(w)"));
  CHECK(calls("y = self._attn(q, v)", Precision::kFp32) == with("to(w)"));
}

// "dropout(probs[..., :-1]).to(value_states.dtype)" of GPT-OSS.
TEST_CASE("weights that have lost their sinks are cast to the type of the values") {
  ExportedBuilder builder;
  builder.Input("q", {6, 6}).Input("v", {5, 6}).At("net.py", 3, "y, w = attention_interface(");
  builder.Make("torch.ops.aten.matmul.default", "s", {{"self", Ref("q")}, {"other", Ref("q")}},
               {6, 6});
  builder.Make("torch.ops.aten.softmax.int", "w", {{"self", Ref("s")}, {"dim", Number(-1)}},
               {6, 6});
  builder.Make("torch.ops.aten.slice.Tensor", "p",
               {{"self", Ref("w")}, {"dim", Number(2)}, {"start", Number(0)}, {"end", Number(-1)}},
               {6, 5});
  builder.Make("torch.ops.aten.to.dtype", "t", {{"self", Ref("p")}, {"dtype", Text("float32")}},
               {6, 5});
  builder.Make("torch.ops.aten.matmul.default", "y", {{"self", Ref("t")}, {"other", Ref("v")}},
               {6, 6});
  const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
  const std::string calls = CallsOf(Made(builder.Return("y"), settings).program);
  CHECK_MESSAGE(calls.ends_with(" type_as(p,v) matmul(t,v)"), calls);
}

// Bloom's GeLUFunction keeps its input, and nothing that its forward makes.
TEST_CASE("calls of a Function keep nothing, and the last one has its backward") {
  const auto program = [](Mode mode) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8}).Input("h", {8});
    builder.Make("torch.ops.aten.mul.Tensor", "x", {{"self", Ref("h")}, {"other", Ref("p_w")}},
                 {8});
    builder.In("gelu").At("transformers/models/bloom/modeling_bloom.py", 9,
                          "return bloom_gelu_forward(input)");
    builder.Make("torch.ops.aten.sin.default", "half", {{"self", Ref("x")}}, {8});
    builder.Make("torch.ops.aten.tanh.default", "t", {{"self", Ref("x")}}, {8});
    builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("half")}, {"other", Ref("t")}},
                 {8});
    builder.At("net.py", 4, "return torch.cos(y)");
    builder.Make("torch.ops.aten.cos.default", "z", {{"self", Ref("y")}}, {8});
    return Made(builder.Return("z"), {.mode = mode, .loss = Loss::kNone}).program;
  };
  const Program trained = program(Mode::kTrain);
  CHECK(CallsOf(trained) == "mul(h,w) sin(x) tanh(x) bloom_gelu(x,half,t) cos(y)");
  CHECK(trained.calls[1].leaves_autograd);
  CHECK(trained.calls[2].leaves_autograd);
  CHECK_FALSE(trained.calls[3].leaves_autograd);
  CHECK(CallsOf(program(Mode::kEval)) == "mul(h,w) sin(x) tanh(x) mul(half,t) cos(y)");
}

// YosoCumulation, whose forward has three lines.
TEST_CASE("a Function keeps what its calls read of others") {
  constexpr char kFile[] = "transformers/models/yoso/modeling_yoso.py";
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 8}).Input("h", {8, 8});
  builder.Make("torch.ops.aten.mul.Tensor", "q", {{"self", Ref("h")}, {"other", Ref("p_w")}},
               {8, 8});
  builder.Make("torch.ops.aten.cos.default", "k", {{"self", Ref("q")}}, {8, 8});
  builder.Make("torch.ops.aten.sin.default", "v", {{"self", Ref("q")}}, {8, 8});
  builder.In("self");
  builder.At(kFile, 9,
             "expectation = (1 - torch.acos(torch.matmul(query, key.transpose(-1, -2))) / "
             "math.pi) ** hash_code_len");
  builder.Make("torch.ops.aten.matmul.default", "e", {{"self", Ref("q")}, {"other", Ref("k")}},
               {8, 8});
  builder.At(kFile, 10,
             "expectation = expectation * query_mask[:, :, None] * key_mask[:, None, :]");
  builder.Make("torch.ops.aten.mul.Tensor", "m", {{"self", Ref("e")}, {"other", Ref("h")}}, {8, 8});
  builder.At(kFile, 11, "cumulation_value = torch.matmul(expectation, value)");
  builder.Make("torch.ops.aten.matmul.default", "y", {{"self", Ref("m")}, {"other", Ref("v")}},
               {8, 8});
  builder.At("net.py", 4, "return torch.cos(y)");
  builder.Make("torch.ops.aten.cos.default", "z", {{"self", Ref("y")}}, {8, 8});
  const std::string calls = CallsOf(Made(builder.Return("z"), {.loss = Loss::kNone}).program);
  CHECK_MESSAGE(calls.ends_with("matmul(q,k) mul(e,h) yoso_cumulation(q,k,h,m,v) cos(y)"), calls);
}

// HadaWeight, of one line: the scale is a number of the host's.
TEST_CASE("a Function of one line keeps the factors of its products") {
  ExportedBuilder builder;
  builder.Parameter("p_a", "a", {8, 8}).Parameter("p_b", "b", {8, 8});
  builder.Parameter("p_c", "c", {8, 8}).Parameter("p_d", "d", {8, 8});
  builder.Input("h", {8}).In("layer").At("peft/tuners/loha/layer.py", 370,
                                         "diff_weight = ((w1a @ w1b) * (w2a @ w2b)) * scale");
  const auto make = [&](const char* op, const char* name, const char* self, const char* other) {
    builder.MakeFixed(op, name, {{"self", Ref(self)}, {"other", Ref(other)}}, {8, 8});
  };
  make("torch.ops.aten.matmul.default", "e", "p_a", "p_b");
  make("torch.ops.aten.matmul.default", "f", "p_c", "p_d");
  make("torch.ops.aten.mul.Tensor", "g", "e", "f");
  builder.MakeFixed("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("g")}, {"other", Real(2)}},
                    {8, 8});
  const std::string calls = CallsOf(Made(builder.Return("y"), {.loss = Loss::kNone}).program);
  CHECK_MESSAGE(calls.ends_with("mul(e,f) hada_weight(a,b,c,d,g)"), calls);
}

// encoding = F.one_hot(places).to(flat.dtype): the file has fp32 for both.
TEST_CASE("a cast under autocast has the type that the variable's value has") {
  const auto calls = [](const char* line, Precision precision) {
    ExportedBuilder builder;
    builder.Input("x", {6}).At("net.py", 3, "flat = self.linear(x)");
    builder.Make("torch.ops.aten.relu.default", "flat", {{"self", Ref("x")}}, {6});
    builder.At("net.py", 4, line);
    builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("flat")}}, {6});
    builder.Make("torch.ops.aten.to.dtype", "y", {{"self", Ref("c")}, {"dtype", Text("float32")}},
                 {6});
    const TrainingSettings settings = {.precision = precision, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("y = cos(flat).to(flat.dtype)", Precision::kAmpBf16) ==
        "relu(x) cos(flat) type_as(c,flat)");
  // Before the line has bound it anew.
  CHECK(calls("flat = cos(flat).to(flat.dtype)", Precision::kAmpBf16) ==
        "relu(x) cos(flat) type_as(c,flat)");
  CHECK(calls("y = cos(flat).to(x.dtype)", Precision::kAmpBf16) ==
        "relu(x) cos(flat) type_as(c,x)");
  CHECK(calls("y = cos(flat).to(flat.dtype)", Precision::kFp32) == "relu(x) cos(flat) to(c)");
}

// "unit = F.normalize(v.float(), dim=-1).to(out.dtype)", then "(out * unit).sum(-1)".
TEST_CASE("a cast under autocast to another's type has that of what it is multiplied with") {
  const auto calls = [](const char* line) {
    ExportedBuilder builder;
    builder.Input("v", {6}).Input("out", {6}).At("net.py", 3, line);
    builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("v")}}, {6});
    builder.Make("torch.ops.aten.to.dtype", "unit",
                 {{"self", Ref("c")}, {"dtype", Text("float32")}}, {6});
    builder.At("net.py", 4, "y = out * unit");
    builder.Make("torch.ops.aten.mul.Tensor", "m", {{"self", Ref("out")}, {"other", Ref("unit")}},
                 {6});
    builder.At("net.py", 5, "scale = torch.tanh(m).to(out.dtype)");
    builder.Make("torch.ops.aten.tanh.default", "t", {{"self", Ref("m")}}, {6});
    builder.Make("torch.ops.aten.to.dtype", "y", {{"self", Ref("t")}, {"dtype", Text("float32")}},
                 {6});
    const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("unit = f(v.float()).to(out.dtype)") ==
        "cos(v) type_as(c,out) mul(out,unit) tanh(m) type_as(t,out)");
  CHECK(calls("unit = f(v.float()).to(v.dtype)") ==
        "cos(v) to(c) mul(out,c) tanh(m) type_as(t,out)");
}

// A rotary embedding is passed the states of which it makes cosines and sines by their number
// alone.
TEST_CASE("a cast to the type of what a forward was passed has that of the next module's") {
  const auto calls = [](const char* line, const char* given = "states") {
    ExportedBuilder builder;
    builder.Input("x", {6}).At("net.py", 3, "states = self.linear(x)");
    builder.Make("torch.ops.aten.relu.default", "states", {{"self", Ref("x")}}, {6});
    builder.In("rotary").At("net.py", 4, line);
    builder.Make("torch.ops.aten.cos.default", "c", {{"self", Ref("x")}}, {6});
    builder.Make("torch.ops.aten.to.dtype", "d", {{"self", Ref("c")}, {"dtype", Text("float32")}},
                 {6});
    if (std::string_view(given) == "late") {
      builder.In("").At("net.py", 6, "late = dropout(states)");
      builder.Make("torch.ops.aten.exp.default", "late", {{"self", Ref("states")}}, {6});
    }
    builder.In("layer").At("net.py", 9, "x = norm(states)");
    builder.Make("torch.ops.aten.tanh.default", "y", {{"self", Ref(given)}}, {6});
    const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)") ==
        "relu(x) cos(x) type_as(c,states) tanh(states)");
  CHECK(calls("return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)", "late") ==
        "relu(x) cos(x) type_as(c,states) exp(states) tanh(late)");
  CHECK(calls("return cos.to(x.dtype), sin.to(x.dtype)") ==
        "relu(x) cos(x) type_as(c,states) tanh(states)");
  CHECK(calls("return cos.to(dtype=x.dtype)") == "relu(x) cos(x) to(c) tanh(states)");
}

// By which loops skip layers: "if self.training and torch.rand([]) < self.layerdrop".
TEST_CASE("one number without a device is drawn on the CPU") {
  const auto calls = [](const char* line, const std::vector<int64_t>& sizes) {
    ExportedBuilder builder;
    builder.Input("x", {8}).At("net.py", 3, line);
    builder.MakeFixed("torch.ops.aten.rand.default", "r", {}, sizes);
    builder.At("net.py", 4, "y = x + r");
    builder.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("r")}}, {8});
    const TrainingSettings settings = {.mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("r = torch.rand([])", {}) == "add.Scalar(x)");
  CHECK(calls("r = torch.rand([], device=x.device)", {}) == "constant() add(x,r)");
  CHECK(calls("r = torch.rand([8])", {8}) == "constant() add(x,r)");
}

// "torch.rand(shape, dtype=hidden_states.dtype)" of stochastic depth: the file has fp32.
TEST_CASE("what is filled under autocast has the type of what the forward was passed") {
  const auto calls = [](const char* line, Precision precision, const char* other) {
    ExportedBuilder builder;
    builder.Input("x", {6}).Input("h", {6}).In("drop_path").At("net.py", 3, line);
    builder.Make("torch.ops.aten.rand.default", "r", {{"dtype", Text("float32")}}, {1});
    builder.Make("torch.ops.aten.floor.default", "f", {{"self", Ref("r")}}, {1});
    builder.Make("torch.ops.aten.mul.Tensor", "y", {{"self", Ref("h")}, {"other", Ref("f")}}, {6});
    builder.Make("torch.ops.aten.mul.Tensor", "z", {{"self", Ref("y")}, {"other", Ref(other)}},
                 {6});
    const TrainingSettings settings = {.precision = precision, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("z"), settings).program);
  };
  constexpr char kLine[] = "r = torch.rand(shape, dtype=h.dtype, device=h.device)";
  const std::string rest = " floor(r) mul(h,f) mul(y,h)";
  CHECK(calls(kLine, Precision::kAmpBf16, "h") == "bernoulli(h)" + rest);
  // Of two that it may be, that with which the result is joined.
  CHECK(calls(kLine, Precision::kAmpBf16, "x") == "bernoulli(h) floor(r) mul(h,f) mul(y,x)");
  CHECK(calls("r = torch.rand(shape)", Precision::kAmpBf16, "h") == "bernoulli(h)" + rest);
}

// The router of GPT-OSS: "softmax(values, dim=1, dtype=values.dtype)".
TEST_CASE("a softmax that is told a type stays in it under autocast") {
  const auto program = [](const char* line, Precision precision) {
    ExportedBuilder builder;
    builder.Input("x", {6}).At("net.py", 3, "values = self.router(x)");
    builder.Make("torch.ops.aten.relu.default", "v", {{"self", Ref("x")}}, {6});
    builder.At("net.py", 4, line);
    builder.Make("torch.ops.aten.softmax.int", "y",
                 {{"self", Ref("v")}, {"dim", Number(1)}, {"dtype", Text("float32")}}, {6});
    const TrainingSettings settings = {.precision = precision, .mode = Mode::kEval};
    return Made(builder.Return("y"), settings).program;
  };
  constexpr char kLine[] = "y = softmax(values, dim=1, dtype=values.dtype)";
  CHECK(program(kLine, Precision::kAmpBf16).calls[1].leaves_autocast);
  CHECK(CallsOf(program(kLine, Precision::kAmpBf16)) == "relu(x) softmax(v)");
  CHECK(CallsOf(program("y = softmax(x + values, dim=1, dtype=values.dtype)",
                        Precision::kAmpBf16)) == "relu(x) softmax(v)");
  CHECK_FALSE(program(kLine, Precision::kFp32).calls[1].leaves_autocast);
  CHECK_FALSE(program("y = softmax(values, 1)", Precision::kAmpBf16).calls[1].leaves_autocast);
}

// "attn_output * sink_scale.unsqueeze(-1).to(attn_output.dtype)" of a function whose lines the
// file does not show.
TEST_CASE("a hidden cast under autocast has the type of what it is multiplied with") {
  const auto calls = [](const char* line, const char* target) {
    ExportedBuilder builder;
    builder.Input("x", {6}).Input("o", {6}).At("net.py", 3, line);
    builder.Make("torch.ops.aten.to.dtype", "t", {{"self", Ref("x")}, {"dtype", Text("float32")}},
                 {6});
    builder.Make(target, "y", {{"self", Ref("o")}, {"other", Ref("t")}}, {6});
    const TrainingSettings settings = {.precision = Precision::kAmpBf16, .mode = Mode::kEval};
    return CallsOf(Made(builder.Return("y"), settings).program);
  };
  CHECK(calls("y, w = attention_interface(", "torch.ops.aten.mul.Tensor") ==
        "type_as(x,o) mul(o,t)");
  CHECK(calls("y, w = attention_interface(", "torch.ops.aten.add.Tensor") == "to(x) add(o,t)");
  CHECK(calls("y = o * x.to(torch.float32)", "torch.ops.aten.mul.Tensor") == "to(x) mul(o,t)");
}

// A quotient in place has the type and the storage of what is divided, of which a clone is kept
// where the divisor's gradient reads it.
TEST_CASE("x /= y writes over x") {
  const auto trace = [](const char* target) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8, 8}).Input("x", {8});
    builder.Make("torch.ops.aten.linear.default", "h",
                 {{"input", Ref("x")}, {"weight", Ref("p_w")}}, {8});
    builder.Make("torch.ops.aten.sum.dim_IntList", "s", {{"self", Ref("h")}, {"dim", Numbers({1})}},
                 {1});
    builder.Make(target, "y", {{"self", Ref("h")}, {"other", Ref("s")}}, {8});
    const TrainingSettings settings = {
        .precision = Precision::kAmpBf16, .loss = Loss::kMse, .steps = 1};
    return ToString(Train(Made(builder.Return("y"), settings).program, settings));
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  };
  const std::string over = trace("torch.ops.aten.div_.Tensor");
  CHECK_MESSAGE(has(over, "+s:16 +h:64 "), over);  // the clone
  CHECK_FALSE(has(over, "+y:"));
  CHECK(has(trace("torch.ops.aten.div.Tensor"), "+s:16 +y:128 "));  // fp32, as autocast's sum is
}

// Autograd keeps indices where they are; a copy is there while the kernel runs.
TEST_CASE("indices on the host are copied each time") {
  ExportedBuilder builder;
  builder.Parameter("p_w", "w", {8, 8}).Input("x", {8});
  builder.MakeFixed("torch.ops.aten.arange.default", "i", {{"end", Number(6)}}, {6}, DType::kInt64);
  builder.program().graph.tensors["i"].device = "cpu";
  builder.program().graph.tensors["p_w"].device = "cuda";
  builder.MakeFixed("torch.ops.aten.index.Tensor", "r",
                    {{"self", Ref("p_w")}, {"indices", List({Ref("i")})}}, {6, 8});
  builder.Make("torch.ops.aten.linear.default", "y", {{"input", Ref("x")}, {"weight", Ref("r")}},
               {6});
  const TrainingSettings settings = {.loss = Loss::kMse, .steps = 1};
  const Program program = Made(builder.Return("y"), settings).program;
  CHECK(CallsOf(program) == "index.host(w;6) linear(x,r)");
  const std::string text = ToString(Train(program, settings));
  CHECK_MESSAGE(text.find("+r.scratch:48 +r:192 -r.scratch") != text.npos, text);
  // Their places in backward are made of them on the host.
  CHECK_MESSAGE(text.find("+w.grad:256 +r.scratch:48 +r.scratch:48 ") != text.npos, text);
}

// model.to(device) moves it, and what is made of it is where it is.
TEST_CASE("a parameter that the file has on the CPU is the module's all the same") {
  const auto calls = [](bool of_parameter) {
    ExportedBuilder builder;
    builder.Parameter("p_w", "w", {8}).Parameter("p_l", "l", {8}).Input("x", {8});
    builder.MakeFixed("torch.ops.aten.ones.default", "o", {}, {8}, DType::kFloat32);
    builder.Make("torch.ops.aten.exp.default", "e", {{"self", Ref(of_parameter ? "p_l" : "o")}},
                 {8});
    builder.Make("torch.ops.aten.add.Tensor", "y", {{"self", Ref("x")}, {"other", Ref("e")}}, {8});
    for (const char* name : {"p_l", "o", "e"}) {
      builder.program().graph.tensors[name].device = "cpu";
    }
    for (const char* name : {"p_w", "x", "y"}) {
      builder.program().graph.tensors[name].device = "meta";
    }
    return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls(true) == "exp(l) add(x,e)");
  CHECK(calls(false) == "add.Scalar(x)");
}

TEST_CASE("a type that nothing else in the module has is the code's own") {
  const auto made = [](const char* target, DType dtype) {
    ExportedBuilder builder;
    builder.Input("x", {8});
    const std::string aten = std::string(kNs) + target;
    builder.Make(aten, "y", {{"self", Ref("x")}}, {8}, dtype);
    return Made(builder.Return("y"), {.mode = Mode::kEval}).program;
  };
  const auto type_of = [](const Program& program) {
    return program.values[static_cast<size_t>(program.outputs[0])].type.dtype;
  };
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    CHECK(type_of(made("to.dtype", dtype)) == dtype);
  }
  const Program softmax = made("softmax.int", DType::kFloat64);
  CHECK(CallsOf(softmax) == "to(x) softmax(y.cast)");
  CHECK(type_of(softmax) == DType::kFloat64);
  CHECK(CallsOf(made("log_softmax.int", DType::kFloat32)) == "log_softmax(x)");
}

// Of torch 2.11's events in bfloat16: a cast, the softmax in fp32, which is kept, and a cast back.
TEST_CASE("a softmax that the code wants in fp32 is one in 16 bits, too") {
  ExportedBuilder builder;
  builder.Input("x", {8}).At("net.py", 3,
                             "w = softmax(x, dim=-1, dtype=torch.float32).to(x.dtype)");
  builder.Make("torch.ops.aten.softmax.int", "s",
               {{"self", Ref("x")}, {"dim", Number(-1)}, {"dtype", Text("float32")}}, {8});
  builder.Make("torch.ops.aten.to.dtype", "y", {{"self", Ref("s")}, {"dtype", Text("float32")}},
               {8});
  const Program program =
      Made(builder.Return("y"), {.precision = Precision::kBf16, .mode = Mode::kEval}).program;
  CHECK(CallsOf(program) == "to(x) softmax(s.cast) to(s)");
  CHECK(program.values[static_cast<size_t>(program.outputs[0])].type.dtype == DType::kBFloat16);
}

TEST_CASE("several dimensions of labels are one") {
  ExportedBuilder builder;
  builder.Input("x", {8, 6}).Input("t", {6}, DType::kInt64);
  builder.MakeFixed("torch.ops.aten.cross_entropy_loss.default", "y",
                    {{"self", Ref("x")}, {"target", Ref("t")}}, {});
  CHECK(CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program) ==
        "_log_softmax(x) view(y.log_softmax) view(t) nll_loss2d(y.view,y.view)");
}

TEST_CASE("labels that are smoothed are of classes") {
  ExportedBuilder builder;
  builder.Input("x", {8, 6}).Input("t", {8}, DType::kInt64);
  builder.MakeFixed("torch.ops.aten.cross_entropy_loss.default", "y",
                    {{"self", Ref("x")}, {"target", Ref("t")}, {"label_smoothing", Real(0.1)}}, {});
  CHECK(CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program) ==
        "cross_entropy_loss(x,t;1)");
}

TEST_CASE("products of each element with each are of views") {
  const auto calls = [](const char* target, const std::vector<int64_t>& rest) {
    ExportedBuilder builder;
    builder.Parameter("p_v", "v", {8}).Input("x", {});
    builder.Make(target, "y", {{"self", Ref("x")}, {"other", Ref("p_v")}}, rest);
    return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls("torch.ops.aten.outer.default", {8}) == "view(x) mul(y.view,v)");
  CHECK(calls("torch.ops.aten.kron.default", {8}) ==
        "view(x) view(v) mul(y.view,y.view) view(y.mul)");
}

TEST_CASE("transforms of complex numbers, of which a part is a view") {
  const auto calls = [](std::string_view target, std::string_view part) {
    ExportedBuilder builder;
    builder.Input("x", {8, 6});
    builder.Make("torch.ops.aten.fft_rfft.default", "f", {{"self", Ref("x")}}, {8, 4},
                 DType::kComplex64);
    builder.Make(target, "g", {{"self", Ref("f")}, {"dim", Number(1)}}, {8, 4}, DType::kComplex64);
    builder.Make(part, "y", {{"self", Ref("g")}}, {8, 4});
    return CallsOf(Made(builder.Return("y"), {.mode = Mode::kEval}).program);
  };
  CHECK(calls("torch.ops.aten.fft_fft.default", "torch.ops.aten.real.default") ==
        "_fft_r2c(x) _fft_c2c(f;1) view_as_real(g) select(y.pairs;3)");
  CHECK(calls("torch.ops.aten.fft_ifft.default", "torch.ops.aten.imag.default") ==
        "_fft_r2c(x) _fft_c2c(f;1) view_as_real(g) select(y.pairs;3)");
}

TEST_CASE("an operator without a row is told") {
  ExportedBuilder builder;
  builder.Input("x", {8});
  builder.Make("torch.ops.aten.frobnicate.default", "y", {{"self", Ref("x")}}, {8});
  const Program program = Made(builder.Return("y"), {.mode = Mode::kEval}).program;
  REQUIRE(program.warnings.size() == 1);
  CHECK(program.warnings[0].text.starts_with(
      "no rule for torch.ops.aten.frobnicate.default (1 call): "));
}

TEST_CASE("no call has two rows") {
  std::set<std::string_view> targets;
  for (const auto family : {LayerRows(), LossRows(), ElementwiseRows(), MovementRows(), ViewRows(),
                            IndexingRows(), MakingRows(), FourierRows()}) {
    for (const CallRow& row : family) {
      CAPTURE(std::string(row.target));
      CHECK(targets.insert(row.target).second);
    }
  }
}

}  // namespace
}  // namespace onnxfit::pt2_calls_test
