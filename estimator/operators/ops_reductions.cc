// Reductions.  Sources: pytorch v2.6.0 derivatives.yaml; orders from recorded events,
// torch 2.11.
#include <algorithm>

#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {

namespace {

// Bit i: dimension i of `dims` is one of `left`, what a reduction leaves, with or without ones for
// those that it sums over.
uint64_t KeptDims(const Dims& dims, const Dims& left) {
  uint64_t kept = 0;
  const bool keeps_ones = dims.size() == left.size();
  for (size_t i = 0, next = 0; i < dims.size(); ++i) {
    const bool is_left =
        keeps_ones ? left[i] == dims[i] : next < left.size() && left[next] == dims[i];
    if (!is_left) continue;
    kept |= uint64_t{1} << i;
    ++next;
  }
  return kept;
}

SumScratch ScratchOfSum(const CallTypes& call) {
  const StridedType& x = call.in(0);
  constexpr size_t kMostDims = 64;
  if (x.dims.size() > kMostDims) return {};
  const DType summed = IsFloat(x.dtype) ? x.dtype : call.out(0).dtype;
  return ScratchOf(SumOver(summed, x.dims, x.strides, KeptDims(x.dims, call.out(0).dims)),
                   call.device());
}

TensorType DiagonalPlaces(const CallTypes& call) {
  const Dims& dims = call.in(0).dims;
  return {DType::kInt64, {std::min(dims[0], dims[1])}};
}

// What is kSharedByEqualOfAll of all elements, of some dimensions: grad / count * mask, which lies
// as those two do.
// Neither says it all where x is a view: along what is reduced the quotient says nothing.
// Source: scale_grad_by_count, torch/csrc/autograd/FunctionsManual.cpp, pytorch v2.11.0.
Dims StridesOfShared(const CallTypes& types) {
  const StridedType& x = types.in(0);
  const auto seen_whole = [&](const StridedType& reduced) {
    return StridedType{{reduced.dtype, x.dims}, StridesOfSum(reduced, x.dims)};
  };
  const StridedType result = seen_whole(types.out(0));
  const StridedType* const compared[] = {&result, &x};
  const StridedType mask = {BoolsLikeInput(types), ElementwiseStrides(x.dims, compared)};
  const StridedType quotient = seen_whole(types.incoming_gradient());
  const StridedType* const factors[] = {&quotient, &mask};
  return ElementwiseStrides(x.dims, factors);
}

void SharedByEqualBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(BoolsLikeInput(types));
  kernel.Take(IntegersLikeOutput(types));
  kernel.Free(kernel.Take(IntegersLikeInput(types)));
  kernel.Take(LikeOutput(types));
  kernel.MakeGrad(0, StridesOfShared(types));
}

// number * grad * (x - mean (x)), as the gradient of `result`.
void MakeVarianceGrad(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(LikeOutput(types));
  kernel.Take(LikeInput(types));
  kernel.Take(LikeOutput(types));
  kernel.MakeGrad(0);
}

// The gradient of the variance: grad / (2 * result), 0 where the result is.
int TakeGradOfSquare(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int twice = kernel.Take(LikeOutput(types));
  const int gradient = kernel.Take(LikeOutput(types));
  kernel.Free(kernel.Take(BoolsLikeOutput(types)));
  kernel.Free(twice);
  return gradient;
}

void StdBackward(Kernel& kernel) {
  TakeGradOfSquare(kernel);
  MakeVarianceGrad(kernel);
}

// Of both results, those that have a gradient: that of the mean is added.
template <bool kHasRoot>
void MomentsBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  if (!kernel.HasIncoming(0)) return kernel.MakeGrad(0);
  if (!kernel.HasIncoming(1)) {
    return kHasRoot ? StdBackward(kernel) : MakeVarianceGrad(kernel);
  }
  const int root = kHasRoot ? TakeGradOfSquare(kernel) : -1;
  const int mean = kernel.Take(LikeOutput(types));
  const int difference = kernel.Take(LikeInput(types));
  const int scaled = kernel.Take(LikeOutput(types));
  kernel.Take(LikeInput(types));
  for (const int taken : {scaled, difference, mean}) kernel.Free(taken);
  if (kHasRoot) kernel.Free(root);
  kernel.Take(LikeInput(types));
  kernel.MakeGrad(0);
}

// What CUB selects with, of up to a block of elements; 8 bytes more for each that follows.
constexpr int64_t kSelectBytes = 1023;

// Where nothing is 0, which the formula asks first: grad * (result / x).  Of all elements it looks
// for zeros (nonzero), of a dimension it counts them.  ints: the dimension.
void ProductBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int zeros = kernel.Take(BoolsLikeInput(types));
  const bool is_of_all = types.out(0).dims.empty() && types.ints().empty();
  const bool is_copied = is_of_all && !IsContiguous(types.in(0));
  const int dense = kernel.Take(is_copied ? BoolsLikeInput(types) : TensorType());
  const int count =
      kernel.Take(is_of_all ? TensorType{DType::kInt32, {}} : IntegersLikeOutput(types));
  if (!is_of_all) {
    kernel.Free(kernel.Take(IntegersLikeInput(types)));
    kernel.Free(kernel.Take({DType::kInt64, {}}));
  } else {
    kernel.Free(kernel.Take({DType::kUint8, {1}}));
    kernel.Free(kernel.Take({DType::kUint8, {kSelectBytes}}));
    kernel.Free(count);
    kernel.Free(dense);
    kernel.Free(zeros);
  }
  kernel.Take(LikeInput(types));
  kernel.MakeGrad(0);
}

// The arguments of mvlgamma's p gammas.  ints: p.
TensorType GammaPlaces(const CallTypes& call) { return {call.in(0).dtype, {call.ints()[0]}}; }
TensorType GammaArguments(const CallTypes& call) {
  TensorType type = LikeInput(call);
  type.dims.push_back(call.ints()[0]);
  return type;
}

constexpr OpRule kReductionRules[] = {
    // Means keep nothing; their gradient has the input's full size.  Before 2.2 its formula asked
    // the input how many elements it has (derivatives.yaml, mean.dim).
    {.name = "mean",
     .gradients = {Reads({})},
     .reads_input = &FrameworkProfile::mean_reads_input,
     .forward = {MakeOut(0), Scratch(SumsOfBlocks), Passing(SemaphoresOfBlocks)}},
    {.name = "sum",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {Expands()},
     .forward = {MakeOut(0), Scratch(CastOfIntegers), Scratch(SumsOfBlocks),
                 Passing(SemaphoresOfBlocks)}},
    // sum(x, dtype=torch.float32)
    {.name = "sum.dtype",
     .has_own_type = true,
     .gradients = {Expands()},
     .forward = {MakeOut(0), Scratch(SumsOfBlocks), Passing(SemaphoresOfBlocks)}},
    // grad where x is a number
    {.name = "nansum",
     .gradients = {ReadsAsInput(In(0))},
     .backward = {Scratch(BoolsLikeInput), Scratch(BoolsLikeInput), MakeGrad(0)}},
    {.name = "trace", .gradients = {Reads({})}, .backward = {MakeGrad(0), Scratch(DiagonalPlaces)}},
    // Beside the value the place where it was found, which its gradient is scattered to.
    {.name = "max.dim", .gradients = {Reads(Aux(0))}, .aux = {{{"indices", IntegersLikeOutput}}}},
    {.name = "amax",
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(SumsOfBlocks), Passing(SemaphoresOfBlocks)},
     .run_backward = SharedByEqualBackward},
    {.name = "max",
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(DenseInput<0>), Scratch(SumsOfBlocks),
                 Passing(SemaphoresOfBlocks)},
     .backward = kSharedByEqualOfAll},
    {.name = "var", .gradients = {ReadsAsInput(In(0))}, .run_backward = MakeVarianceGrad},
    {.name = "std", .gradients = {ReadsAsInput(In(0) | Out(0))}, .run_backward = StdBackward},
    {.name = "var_mean",
     .gradients = {ReadsAsInput(In(0))},
     .run_backward = MomentsBackward<false>},
    {.name = "std_mean",
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .run_backward = MomentsBackward<true>},
    {.name = "prod",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(SumsOfBlocks), Passing(SemaphoresOfBlocks)},
     .run_backward = ProductBackward},
    // The sum of log-gammas of x and p numbers; grad * sum of digammas
    {.name = "mvlgamma",
     .gradients = {Reads(In(0))},
     .forward = {Passing(GammaPlaces), Scratch(GammaArguments), MakeOut(0)},
     .backward = {Passing(GammaPlaces), Scratch(GammaArguments), Scratch(LikeOutput), MakeGrad(0)}},
    // x.amax, as zeros where its abs is infinite; exp (x - that), its sum
    {.name = "logsumexp",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {Scratch(LikeOutput), Scratch(LikeOutput), Passing(BoolsLikeOutput),
                 DropScratch(1, 1), Scratch(LikeInput), MakeOut(0)},
     .backward = {Scratch(LikeInput), Scratch(LikeInput), MakeGrad(0)}},
};

}  // namespace

TensorType SumsOfBlocks(const CallTypes& call) {
  return ScratchBytes(ScratchOfSum(call).partial_bytes);
}

TensorType SemaphoresOfBlocks(const CallTypes& call) {
  return ScratchBytes(ScratchOfSum(call).semaphore_bytes);
}

std::span<const OpRule> ReductionRules() { return kReductionRules; }

TensorType CastOfIntegers(const CallTypes& call) {
  const DType made = call.out(0).dtype;
  if (call.in(0).dtype == made || IsFloat(made)) return {};
  return {made, call.in(0).dims};
}

}  // namespace onnxfit
