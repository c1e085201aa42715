// What is unique, where elements are, what is drawn, bins, and sums along a dimension: what scans
// and selections of CUB take.  Sources: pytorch v2.11.0, the files of aten/src/ATen/native/cuda
// that are named below, and torch 2.11 events.
#include <algorithm>
#include <cstdint>

#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// --- What is unique (Unique.cu, UniqueCub.cu).  ints: whether inverse and counts are asked for;
// the result has the storage of all elements ---

bool HasInverse(const CallTypes& call) { return call.ints()[0] != 0; }
bool HasCounts(const CallTypes& call) { return call.ints()[1] != 0; }
TensorType AllElements(const CallTypes& call) { return {call.in(0).dtype, {CountOfInput(call)}}; }
TensorType PlacesOfAll(const CallTypes& call) { return {DType::kInt64, {CountOfInput(call)}}; }
TensorType PlacesOfInverse(const CallTypes& call) {
  return HasInverse(call) ? PlacesOfAll(call) : TensorType();
}
TensorType SortOfKeys(const CallTypes& call) {
  const int64_t count = CountOfInput(call);
  const DType keys = call.in(0).dtype;
  return ScratchBytes(HasInverse(call) ? SortBytes(count, BitsOf(keys), call.device(), BitsOf(keys))
                                       : SortKeysBytes(count, keys, call.device()));
}
TensorType NumbersOfInverse(const CallTypes& call) {
  return HasInverse(call) ? TensorType{DType::kInt32, {CountOfInput(call)}} : TensorType();
}
TensorType ScanOfInverse(const CallTypes& call) {
  return HasInverse(call) ? ScratchBytes(InverseScanBytes(CountOfInput(call), call.device()))
                          : TensorType();
}
TensorType SelectOfKeys(const CallTypes& call) {
  const int64_t count = CountOfInput(call);
  return ScratchBytes(HasCounts(call) ? RunLengthBytes(count)
                                      : UniqueKeysBytes(count, call.in(0).dtype, call.device()));
}

// --- Where elements are (nonzero_cuda_out_impl of Nonzero.cu): they are counted, then selected ---

TensorType CountOfElements(const CallTypes&) { return {DType::kInt32, {}}; }
TensorType SumOfElements(const CallTypes& call) {
  return ScratchBytes(CountBytes(CountOfInput(call), call.device()));
}
TensorType SelectCounted(const CallTypes& call) {
  return ScratchBytes(SelectBytes(CountOfInput(call), call.device()));
}

// masked_select finds where its mask is true; its gradient is scattered back (masked_scatter), for
// which the mask's elements that are true before each are counted.
int64_t CountOfMask(const CallTypes& call) { return Numel(call.in(1).dims); }
TensorType SumOfMask(const CallTypes& call) {
  return ScratchBytes(CountBytes(CountOfMask(call), call.device()));
}
TensorType PlacesOfMask(const CallTypes& call) {
  const auto rank = static_cast<int64_t>(call.in(1).dims.size());
  return {DType::kInt64, {Numel(call.out(0).dims), rank}};
}
TensorType SelectOfMask(const CallTypes& call) {
  return ScratchBytes(SelectBytes(CountOfMask(call), call.device()));
}
TensorType ScannedMask(const CallTypes& call) { return {DType::kInt64, {CountOfInput(call)}}; }
TensorType ScanOfMask(const CallTypes& call) {
  return ScratchBytes(ScanBytes(CountOfInput(call), call.framework().cub));
}

// --- What is drawn (MultinomialKernel.cu, native/Distributions.cpp) ---

bool PutsBack(const CallTypes& call) { return call.ints()[0] != 0; }
TensorType SumsToDraw(const CallTypes& call) {
  return PutsBack(call) ? LikeInput(call) : TensorType();
}
TensorType ScanToDraw(const CallTypes& call) {
  const bool is_one = call.in(0).dims.size() == 1;
  if (!PutsBack(call) || !is_one) return {};
  return ScratchBytes(ScanBytes(CountOfInput(call), call.framework().cub, call.in(0).dtype));
}
TensorType LargestQuotients(const CallTypes& call) {
  const bool is_one = call.out(0).dims.back() == 1;
  return PutsBack(call) || is_one ? TensorType() : TensorType{call.in(0).dtype, call.out(0).dims};
}

// --- Bins (SummaryOps.cu): without a range, of which ints of 0 tell, that of all elements is found
// first ---

bool FindsRange(const CallTypes& call) { return !call.ints().empty() && call.ints()[0] == 0; }
TensorType Extreme(const CallTypes& call) {
  return FindsRange(call) ? TensorType{call.in(0).dtype, {}} : TensorType();
}
SumScratch ScratchOfExtreme(const CallTypes& call) {
  if (!FindsRange(call)) return {};
  const StridedType& x = call.in(0);
  return ScratchOf(SumOver(x.dtype, x.dims, x.strides, 0), call.device());
}
TensorType PartsOfExtreme(const CallTypes& call) {
  return ScratchBytes(ScratchOfExtreme(call).partial_bytes);
}
TensorType SemaphoresOfExtreme(const CallTypes& call) {
  return ScratchBytes(ScratchOfExtreme(call).semaphore_bytes);
}

// --- Sums along a dimension.  ints: the dimension, {} of an unknown one ---

// One row is scanned by CUB, more by a kernel that takes nothing (scan_dim of ScanUtils.cuh).
bool IsOneRow(const CallTypes& call) {
  const Dims& dims = call.in(0).dims;
  if (dims.empty()) return false;
  const int64_t size =
      call.ints().empty() ? *std::ranges::max_element(dims) : dims[Index(call.ints()[0])];
  return size > 0 && size == Numel(dims);
}
TensorType ScanOfRow(const CallTypes& call) {
  if (!IsOneRow(call)) return {};
  return ScratchBytes(ScanBytes(CountOfInput(call), call.framework().cub, call.out(0).dtype));
}

// Where nothing is 0: the sum of result * grad from the end, by x.
void CumulativeProductBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(LikeOutput(types));
  kernel.Take(BoolsLikeInput(types));
  kernel.Free(kernel.Take({DType::kBool, {}}));
  const int flipped = kernel.Take(LikeOutput(types));
  const int summed = kernel.Take(LikeOutput(types));
  kernel.Free(kernel.Take(ScanOfRow(types)));
  kernel.Take(LikeOutput(types));
  kernel.Free(summed);
  kernel.Free(flipped);
  kernel.MakeGrad(0);
}

// exp (reversed sum in logarithms of (log |grad| - result) + x), of positive and of negative
// gradients (logcumsumexp_backward).
int TakeSideOfLogSum(Kernel& kernel) {
  const TensorType type = LikeInput(kernel.types());
  const int shifted = kernel.Take(type);
  const int flipped = kernel.Take(type);
  const int summed = kernel.Take(type);
  kernel.Free(kernel.Take(ScanOfRow(kernel.types())));
  const int back = kernel.Take(type);
  kernel.Free(summed);
  kernel.Free(flipped);
  const int moved = kernel.Take(type);
  const int side = kernel.Take(type);
  for (const int taken : {moved, back, shifted}) kernel.Free(taken);
  return side;
}

void LogSumBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(ScalarLikeOutput(types));
  const int size = kernel.Take(LikeInput(types));
  kernel.Take(LikeInput(types));
  kernel.Free(size);
  for (int i = 0; i < 2; ++i) {
    const int is_there = kernel.Take(BoolsLikeInput(types));
    kernel.Take(LikeInput(types));
    kernel.Free(is_there);
  }
  TakeSideOfLogSum(kernel);
  TakeSideOfLogSum(kernel);
  kernel.MakeGrad(0);
}

constexpr OpRule kScanRules[] = {
    {.name = "unique",  // values, places, counts; none where they are not asked for
     .storage = AllElements,
     .forward = {Scratch(AllElements), Scratch(PlacesOfInverse), Scratch(PlacesOfInverse),
                 Passing(SortOfKeys), DropScratch(1, 1), MakeOut(1), Scratch(PlacesOfInverse),
                 Passing(ScanOfInverse), DropScratch(4, 1), MakeOut(0), Scratch(OneInteger),
                 MakeOut(2), Passing(SelectOfKeys)}},
    {.name = "nonzero.self",
     .forward = {Scratch(CountOfElements), Passing(SumOfElements), MakeOut(0),
                 Passing(SelectCounted)}},
    {.name = "histc",
     .forward = {MakeOut(0), Scratch(Extreme), Scratch(PartsOfExtreme),
                 Passing(SemaphoresOfExtreme), DropScratch(), Scratch(Extreme),
                 Scratch(PartsOfExtreme), Passing(SemaphoresOfExtreme)}},
    {.name = "searchsorted",  // a sorted sequence, values
     .forward = {MakeOut(0), Scratch(DenseInput<0>), Scratch(DenseInput<1>)}},
    {.name = "unique.bool",
     .forward = {Scratch(CountOfElements), Passing(SumOfElements), MakeOut(0), MakeOut(2),
                 MakeOut(1)}},
    {.name = "unique_consecutive",
     .storage = AllElements,
     .forward = {MakeOut(1), Scratch(NumbersOfInverse), Passing(ScanOfInverse), DropScratch(),
                 MakeOut(0), Scratch(OneInteger), MakeOut(2), Passing(SelectOfKeys)}},
    {.name = "masked_select",  // x, mask
     .gradients = {Reads(In(0) | In(1))},
     .forward = {Scratch(CountOfElements), Passing(SumOfMask), Scratch(PlacesOfMask),
                 Passing(SelectOfMask), MakeOut(0)},
     .backward = {MakeGrad(0), Scratch(ScannedMask), Passing(ScanOfMask)}},
    // What is drawn with replacement is looked up in sums; else it is the largest of quotients.
    {.name = "multinomial",  // ints: whether it is put back
     .forward = {MakeOut(0), Scratch(LikeInput), Scratch(SumsToDraw), Scratch(SumsToDraw),
                 Passing(ScanToDraw), Scratch(LargestQuotients)}},
    {.name = "cummax",
     .gradients = {Reads(In(0) | Out(1))},
     .forward = {MakeOut(0), MakeOut(1), Scratch(DenseInput<0>)}},
    {.name = "cumsum",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(CastOfIntegers), Scratch(DenseInput<0>), Passing(ScanOfRow)},
     // flip, which lies as the gradient does, cumsum, flip
     .backward = {Scratch(LikeInput), Scratch(LikeInput), Passing(DenseGradient),
                  Passing(ScanOfRow), MakeGrad(0)}},
    {.name = "cumprod",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {Reads(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(CastOfIntegers), Scratch(DenseInput<0>), Passing(ScanOfRow)},
     .run_backward = CumulativeProductBackward},
    {.name = "logcumsumexp",
     .gradients = {Reads(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(DenseInput<0>), Passing(ScanOfRow)},
     .run_backward = LogSumBackward},
};

}  // namespace

std::span<const OpRule> ScanRules() { return kScanRules; }

}  // namespace onnxfit
