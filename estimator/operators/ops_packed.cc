// Products by weights that bitsandbytes 0.50.2 has packed.
#include <algorithm>

#include "estimator/operators/dispatcher.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/packed_products.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// --- Weights of 4 bits -----------------------------------------------------------------------

// Scales of blocks of 64 in fp32, and the whole matrix: ints are outputs and inputs.
TensorType ScalesIn32Bits(const CallTypes& call) {
  return {DType::kFloat32, {(call.ints()[0] * call.ints()[1] + 63) / 64}};
}
TensorType Dequantized(const CallTypes& call) {
  return {call.out(0).dtype, {call.ints()[0], call.ints()[1]}};
}

template <size_t kInput>
TensorType DenseRows(const CallTypes& call) {
  const TensorType& rows = call.in(kInput);
  return IsContiguous(call.in(kInput)) ? TensorType() : rows;
}

// torch.matmul makes batches of matrices of a gradient of more than three dimensions, which is
// copied where its strides forbid that (aten/src/ATen/native/LinearAlgebra.cpp, pytorch v2.11.0).
TensorType GradientInBatches(const CallTypes& call) {
  const StridedType& gradient = call.incoming_gradient();
  const size_t rank = gradient.dims.size();
  if (rank <= 3) return {};
  const Dims matrix = {gradient.dims[rank - 2], gradient.dims[rank - 1]};
  const int64_t batches = Numel(gradient.dims) / std::max<int64_t>(Numel(matrix), 1);
  const bool is_view = StridesOfView(gradient, {batches, matrix[0], matrix[1]}).possible;
  return is_view ? TensorType() : TensorType{gradient.dtype, gradient.dims};
}

template <int kInput>
constexpr BackwardSteps kDequantizesFor = {ScratchWith(kInput, ScalesIn32Bits),
                                           ScratchWith(kInput, Dequantized),
                                           DropScratch(0, 1),
                                           ScratchWith(kInput, GradientInBatches),
                                           MakeGrad(kInput),
                                           Uses(Workspace::kCublas)};

// By the kernel for so many rows.  ints: outputs and inputs.
void TakePackedApart(Dispatcher& dispatcher, const AtenCall& call, size_t x) {
  const TensorType& type = dispatcher.TypeOf(call.inputs[x]);
  const PackedProduct product = {.type = type.dtype,
                                 .rows = Numel(type.dims) / std::max<int64_t>(call.ints[1], 1),
                                 .outputs = call.ints[0],
                                 .inputs = call.ints[1]};
  const bool is_whole = !ReadsPacked(product, dispatcher.device());
  const bool has_bias = x > 0;
  dispatcher.MakeResult(has_bias ? (is_whole ? "addmm_dequantized" : "addmm_packed")
                                 : (is_whole ? "linear_dequantized" : "linear_packed"),
                        call.inputs, call.ints);
}

// --- Weights of 8 bits -----------------------------------------------------------------------

bool IsHalf(const CallTypes& call) { return call.in(0).dtype == DType::kFloat16; }
TensorType Byte(const CallTypes&) { return {DType::kUint8, {1}}; }
TensorType RowsInHalf(const CallTypes& call) { return {DType::kFloat16, call.in(0).dims}; }

// outliers.any(), of flags of one byte.
SumScratch ScratchOfAny(const CallTypes& call) {
  const int64_t flags = Numel(call.in(0).dims);
  SumShape shape = SumOver(DType::kBool, {flags}, {1}, 0);
  shape.accumulator_bytes = 1;
  return ScratchOf(shape, call.device());
}
TensorType AnyOfBlocks(const CallTypes& call) {
  return ScratchBytes(ScratchOfAny(call).partial_bytes);
}
TensorType AnySemaphores(const CallTypes& call) {
  return ScratchBytes(ScratchOfAny(call).semaphore_bytes);
}

// What the kernel makes: products in 32 bits, scaled in fp16, then in the type of the inputs.
TensorType ProductsInInt32(const CallTypes& call) { return {DType::kInt32, call.out(0).dims}; }
TensorType ProductsInHalf(const CallTypes& call) {
  return IsHalf(call) ? TensorType() : TensorType{DType::kFloat16, call.out(0).dims};
}
TensorType GradientAsRows(const CallTypes& call) {
  const StridedType& gradient = call.incoming_gradient();
  return IsContiguous(gradient) ? TensorType() : TensorType{gradient.dtype, gradient.dims};
}
TensorType ScalesOfRows(const CallTypes& call) { return {DType::kFloat32, {call.ints()[0], 1}}; }

constexpr OpRule kPackedRules[] = {
    // x [.., K], the packed weight; behind a bias where the layer has one.  One kernel reads it, or
    // scales are dequantized, moved by their mean, then the weight is dequantized for one product
    // (backends/cuda/ops.py, _gemm_4bit_kernel_impl and _dequant_linear_fallback); backward does
    // the latter (autograd/_functions.py, MatMul4Bit), and keeps nothing.
    {.name = "linear_4bit",
     .take_apart = [](Dispatcher& d, const AtenCall& call) { TakePackedApart(d, call, 0); }},
    {.name = "addmm_4bit",
     .take_apart = [](Dispatcher& d, const AtenCall& call) { TakePackedApart(d, call, 1); }},
    {.name = "linear_packed",
     .gradients = {Reads({})},
     .forward = {Scratch(DenseRows<0>), MakeOut(0)},
     .backward = kDequantizesFor<0>},
    {.name = "addmm_packed",
     .gradients = {kNoGradient, Reads({})},
     .forward = {Scratch(DenseRows<1>), MakeOut(0)},
     .backward = kDequantizesFor<1>},
    {.name = "linear_dequantized",
     .gradients = {Reads({})},
     .forward = {Scratch(ScalesIn32Bits), Scratch(ScalesIn32Bits), Scratch(Dequantized), MakeOut(0),
                 Uses(Workspace::kCublas)},
     .backward = kDequantizesFor<0>},
    {.name = "addmm_dequantized",
     .gradients = {kNoGradient, Reads({})},
     .forward = {Scratch(ScalesIn32Bits), Scratch(ScalesIn32Bits), Scratch(Dequantized), MakeOut(0),
                 Uses(Workspace::kCublasLt)},
     .backward = kDequantizesFor<1>},
    // Weights of 8 bits (MatMul8bitLt, autograd/_functions.py; backends/cuda/ops.py).  The inputs
    // in fp16: how large the largest of each row is; then, for outliers, |x| >= 6 of each, whether
    // any is so, and the 0 that is written where some are.
    {.name = "int8_row_stats"},
    {.name = "int8_vectorwise_quant",
     .forward = {MakeOut(0), Scratch(RowsInHalf), Scratch(BoolsLikeInput), DropScratch(0, 1),
                 Scratch(Byte), Scratch(AnyOfBlocks), Passing(AnySemaphores), DropScratch(3, 1),
                 DropScratch(2, 1), Passing(Byte)}},
    // x [.., K], the weight [N, K], x in rows, these in 8 bits, their scales.  Backward dequantizes
    // the weight.
    {.name = "linear_8bit",
     .keeps_in_node = true,
     .gradients = {Reads(In(2))},
     .forward = {Scratch(ProductsInInt32), Scratch(ProductsInHalf), MakeOut(0), DropScratch(1, 1)},
     .backward = {ScratchWith(0, GradientAsRows), ScratchWith(0, Dequantized),
                  PassingWith(0, ScalesOfRows), MakeGrad(0), Uses(Workspace::kCublas)}},
};

}  // namespace

std::span<const OpRule> PackedRules() { return kPackedRules; }

}  // namespace onnxfit
