// Norms of tensors, and distances.  Sources: norm_backward of torch/csrc/autograd/
// FunctionsManual.cpp, aten/src/ATen/native/Distance.cpp and Loss.cpp, pytorch v2.11.0; orders from
// recorded events, torch 2.11.
#include <array>
#include <utility>

#include "estimator/base/strided_loops.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {
namespace {

TensorType InputAsOutput(const CallTypes& call) { return {call.out(0).dtype, call.in(0).dims}; }
TensorType CountsOfNorm(const CallTypes& call) { return {DType::kInt64, call.out(0).dims}; }
TensorType IntegersOfNormed(const CallTypes& call) { return {DType::kInt64, call.in(0).dims}; }

// grad * (x / norm), 0 where the norm is, in the norm's type.
void NormBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int scaled = kernel.Take(InputAsOutput(types));
  const int is_zero = kernel.Take(BoolsLikeOutput(types));
  if (types.in(0).dtype == types.out(0).dtype) return kernel.MakeGrad(0);
  kernel.Take(InputAsOutput(types));
  kernel.Free(is_zero);
  kernel.Free(scaled);
  kernel.MakeGrad(0);
}

// x * |x| ** (p - 2), times grad / norm ** (p - 1), 0 where the norm is.
void PowerNormBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int size = kernel.Take(InputAsOutput(types));
  kernel.Take(InputAsOutput(types));
  kernel.Free(size);
  const int power = kernel.Take(LikeOutput(types));
  kernel.Take(LikeOutput(types));
  kernel.Free(power);
  kernel.Free(kernel.Take(BoolsLikeOutput(types)));
  kernel.MakeGrad(0);
}

// sgn (x) * (grad / count) where |x| is the norm: shared by all that are as large.
void LargestNormBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(InputAsOutput(types));
  const int equal = kernel.Take(BoolsLikeInput(types));
  const int no_number = kernel.Take(BoolsLikeInput(types));
  kernel.Take(BoolsLikeInput(types));
  kernel.Free(no_number);
  kernel.Free(equal);
  kernel.Take(CountsOfNorm(types));
  kernel.Free(kernel.Take(IntegersOfNormed(types)));
  kernel.Take(LikeOutput(types));
  kernel.Take(InputAsOutput(types));
  kernel.Take(InputAsOutput(types));
  kernel.MakeGrad(0);
}

TensorType Difference(const CallTypes& call) {
  return {call.in(0).dtype, BroadcastDims(call.in(0).dims, call.in(1).dims)};
}

// The norm's gradient of (x - other), which is made anew for each; the other's is negated.
void DistBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  for (const int i : {1, 0}) {
    if (!kernel.IsWanted(i)) continue;
    const int difference = kernel.Take(Difference(types));
    const int scaled = kernel.Take(Difference(types));
    const int is_zero = kernel.Take(BoolsLikeOutput(types));
    const int negated = i == 1 ? kernel.Take(Difference(types)) : -1;
    if (i == 0) kernel.MakeGrad(0);
    kernel.Free(is_zero);
    kernel.Free(scaled);
    if (i == 1) {
      kernel.MakeGrad(1);
      kernel.Free(negated);
    }
    kernel.Free(difference);
  }
}

// --- Distances of all pairs of rows, x1 [.., n, d] and x2 [.., m, d] ---

// Of the power 0 a gradient of zeros; else a summand for each pair.  ints: 1 where it is 0.
template <size_t kOwn>
TensorType PairSummands(const CallTypes& call) {
  if (!call.ints().empty() && call.ints()[0] != 0) return {};
  Dims dims = call.out(0).dims;
  if (kOwn == 0) std::swap(dims.end()[-1], dims.end()[-2]);
  dims.push_back(call.in(0).dims.back());
  return {call.out(0).dtype, dims};
}

template <size_t kSide>
TensorType RowNumbers(const CallTypes& call) {
  TensorType type = {call.out(0).dtype, call.in(kSide).dims};
  type.dims.back() = 1;
  return type;
}
template <size_t kSide>
TensorType RowsAndNumbers(const CallTypes& call) {
  TensorType type = {call.out(0).dtype, call.in(kSide).dims};
  type.dims.back() += 2;
  return type;
}

// The sums of ratios over the rows of either side, by several blocks of a kernel.
template <size_t kSide>
SumScratch ScratchOfRatios(const CallTypes& call) {
  const Dims& dims = call.out(0).dims;
  const size_t summed = dims.size() - (kSide == 0 ? 1 : 2);
  const uint64_t kept = ((uint64_t{1} << dims.size()) - 1) & ~(uint64_t{1} << summed);
  return ScratchOf(SumOver(call.out(0).dtype, dims, ContiguousStrides(dims), kept), call.device());
}
template <size_t kSide>
TensorType SumsOfRatios(const CallTypes& call) {
  return ScratchBytes(ScratchOfRatios<kSide>(call).partial_bytes);
}
template <size_t kSide>
TensorType SemaphoresOfRatios(const CallTypes& call) {
  return ScratchBytes(ScratchOfRatios<kSide>(call).semaphore_bytes);
}

// --- What is taken apart ---

TensorType TypeOfBoth(Dispatcher& d, NameId a, NameId b) {
  return {d.TypeOf(a).dtype, BroadcastDims(d.TypeOf(a).dims, d.TypeOf(b).dims)};
}

// x1 - x2 + eps
NameId MakeMovedDifference(Dispatcher& d, NameId a, NameId b) {
  const TensorType type = TypeOfBoth(d, a, b);
  const NameId difference = d.Make("sub", {a, b}, type);
  return d.Make("add.Scalar", {difference}, type);
}

// ints: the power, 2 where there are none, 0 infinity, -1 another.
void TakePairwiseDistanceApart(Dispatcher& d, const AtenCall& call) {
  const int64_t power = call.ints.empty() ? 2 : call.ints[0];
  const char* norm = power == 2   ? "norm"
                     : power == 1 ? "norm.one"
                     : power == 0 ? "norm.largest"
                                  : "norm.power";
  d.MakeResult(norm, {MakeMovedDifference(d, call.inputs[0], call.inputs[1])});
}

// clamp_min (margin + distance (x, positive) - distance (x, negative), 0)
void TakeTripletLossApart(Dispatcher& d, const AtenCall& call) {
  std::array<NameId, 2> distances = {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const size_t locals = d.local_count();
    const NameId moved = MakeMovedDifference(d, call.inputs[0], call.inputs[i + 1]);
    TensorType type = d.TypeOf(moved);
    type.dims.pop_back();
    distances[i] = d.Make("norm", {moved}, type);
    d.DropBeyond(locals, distances[i]);
  }
  const TensorType type = d.TypeOf(distances[0]);
  const NameId margin = d.Make("add.Scalar", {distances[0]}, type);
  const NameId difference = d.Make("sub", {margin, distances[1]}, type);
  const bool is_reduced = d.TypeOf(call.outputs[0]).dims.size() < type.dims.size();
  if (!is_reduced) return d.MakeResult("clamp_min", {difference});
  const NameId loss = d.Make("clamp_min", {difference}, type);
  d.Drop(margin);
  d.MakeResult("mean", {loss});
}

// The sum of x1 / |x1| * x2 / |x2|.  ints: the dimension.
void TakeCosineSimilarityApart(Dispatcher& d, const AtenCall& call) {
  const TensorType type = TypeOfBoth(d, call.inputs[0], call.inputs[1]);
  TensorType kept = type;
  kept.dims[Index(call.ints[0])] = 1;
  std::array<NameId, 2> norms = {};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    norms[i] = d.Make("clone", {d.Make("norm", {call.inputs[i]}, kept)}, kept);
  }
  d.Make("constant", {}, {type.dtype, {}});  // eps, which norms have at least
  const NameId second = d.Make("div", {call.inputs[1], norms[1]}, type);
  const NameId first = d.Make("div", {call.inputs[0], norms[0]}, type);
  d.MakeResult("sum", {d.Make("mul", {first, second}, type)});
}

constexpr OpRule kNormRules[] = {
    {.name = "norm",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {MakeOut(0), Scratch(SumsOfBlocks), Passing(SemaphoresOfBlocks)},
     .run_backward = NormBackward},
    // Of another power than 2: grad * sgn (x), and what the functions say.
    {.name = "norm.one",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {ReadsAsInput(In(0))},
     .backward = {Scratch(InputAsOutput), MakeGrad(0)}},
    {.name = "norm.power",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .run_backward = PowerNormBackward},
    {.name = "norm.largest",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .run_backward = LargestNormBackward},
    // The norm of x - other.
    {.name = "dist",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | Out(0)), Reads(In(0) | In(1) | Out(0))},
     .forward = {Scratch(Difference), MakeOut(0)},
     .run_backward = DistBackward},
    {.name = "cdist",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | Out(0)), Reads(In(0) | In(1) | Out(0))},
     .forward = {Scratch(DenseInput<0>), Scratch(DenseInput<1>), MakeOut(0)},
     .backward = {ScratchWith(0, DenseGradient), ScratchWith(0, DenseInput<0>),
                  ScratchWith(0, DenseInput<1>), MakeGrad(0), PassingWith(0, PairSummands<0>),
                  DropScratch(), ScratchWith(1, LikeOutput), ScratchWith(1, LikeOutput),
                  ScratchWith(1, DenseInput<1>), ScratchWith(1, DenseInput<0>), MakeGrad(1),
                  PassingWith(1, PairSummands<1>)}},
    // √(clamp_min_ ([-2 x1, x1², 1] · [x2, 1, x2²])); of ratio = grad / result, 0 where that is,
    // x1 * sum (ratio) - ratio · x2, and the same of the other one.
    {.name = "_euclidean_dist",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | Out(0)), Reads(In(0) | In(1) | Out(0))},
     .makes_all_gradients = [](const CallTypes&) { return true; },
     .forward = {Scratch(LikeInput), Scratch(RowNumbers<0>), DropScratch(0, 1),
                 Scratch(RowNumbers<0>), Scratch(LikeSecond), Scratch(RowNumbers<1>),
                 DropScratch(3, 1), Scratch(RowNumbers<1>), Scratch(LikeInput),
                 Scratch(RowsAndNumbers<0>), DropScratch(1, 2), DropScratch(6, 1),
                 Scratch(RowsAndNumbers<1>), DropScratch(4, 2), MakeOut(0),
                 Uses(Workspace::kCublas)},
     .backward = {Scratch(LikeOutput), Passing(BoolsLikeOutput), Scratch(LikeInput),
                  Scratch(RowNumbers<0>), Scratch(SumsOfRatios<0>), Passing(SemaphoresOfRatios<0>),
                  DropScratch(4, 1), Scratch(LikeInput), MakeGrad(0), Uses(Workspace::kCublas),
                  Scratch(LikeSecond), Scratch(RowNumbers<1>), Scratch(SumsOfRatios<1>),
                  Passing(SemaphoresOfRatios<1>), DropScratch(9, 1), Scratch(LikeSecond),
                  MakeGrad(1)}},
    {.name = "pairwise_distance", .take_apart = TakePairwiseDistanceApart},
    {.name = "triplet_margin_loss",
     .take_apart = TakeTripletLossApart,
     .autocast = AutocastPolicy::kFp32},
    {.name = "cosine_similarity",
     .take_apart = TakeCosineSimilarityApart,
     .autocast = AutocastPolicy::kFp32},
    // Both gradients by the same kernel, of the other one and of the incoming one.
    {.name = "cross",
     .autocast = AutocastPolicy::kWidest,
     .promotes = true,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .backward = {MakeGrad(1), MakeGrad(0)}},
};

}  // namespace

std::span<const OpRule> NormRules() { return kNormRules; }

}  // namespace onnxfit
