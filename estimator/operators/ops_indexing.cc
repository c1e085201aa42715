// Writes at indices and masks.  Sources: pytorch v2.11.0, tools/autograd/derivatives.yaml and
// FunctionsManual.cpp, aten/src/ATen/native/cuda/Indexing.cu; torch 2.11 events.
#include <vector>

#include "estimator/base/strided_loops.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"
#include "estimator/program/call_operands.h"

namespace onnxfit {
namespace {

TensorType Plain(const StridedType& type) { return {type.dtype, type.dims}; }
TensorType TruthsOf(const StridedType& type) { return {DType::kBool, type.dims}; }

TensorType AsSecond(const CallTypes& call) { return Plain(call.in(1)); }
TensorType AsThird(const CallTypes& call) { return Plain(call.in(2)); }

// --- x, values, indices… -------------------------------------------------------

// How many places the indices, which broadcast, name.
int64_t CountOfPlaces(const CallTypes& call) {
  Dims places;
  for (size_t i = 2; i < call.input_count(); ++i) {
    if (call.has_input(i)) places = BroadcastDims(places, call.in(i).dims);
  }
  return Numel(places);
}

// index_put_with_sort_kernel: a place for each index, they and their numbers sorted.
TensorType SortedPlaces(const CallTypes& call) { return {DType::kInt64, {CountOfPlaces(call)}}; }
TensorType PlacesSort(const CallTypes& call) {
  const int64_t bits = BitsOfIndices(Numel(call.in(0).dims));
  return {DType::kUint8, {SortBytes(CountOfPlaces(call), bits, call.device())}};
}

constexpr Slots kIndices = In(2) | In(3) | In(4) | In(5);

// --- x, indices, values, reduced -----------------------------------------------

// ints: how (a Reduction), and whether x is among what is reduced.
bool IsReducedBy(const CallTypes& call, Reduction reduction) {
  return !call.ints().empty() && call.ints()[0] == static_cast<int64_t>(reduction);
}
bool IncludesSelf(const CallTypes& call) { return call.ints().size() > 1 && call.ints()[1] != 0; }

// A mean counts ones.
TensorType OnesOfMean(const CallTypes& call) {
  return IsReducedBy(call, Reduction::kMean) ? AsThird(call) : TensorType();
}
TensorType CountsOfMean(const CallTypes& call) {
  return IsReducedBy(call, Reduction::kMean) ? LikeInput(call) : TensorType();
}
TensorType ZeroCounts(const CallTypes& call) {
  return IsReducedBy(call, Reduction::kMean) ? TruthsOf(call.in(0)) : TensorType();
}

// scatter_reduce_backward and index_reduce_backward of FunctionsManual.cpp.
class ReducedBackward {
 public:
  ReducedBackward(Kernel& kernel, bool scatters)
      : kernel_(kernel),
        scatters_(scatters),
        self_(Plain(kernel.types().in(0))),
        source_(Plain(kernel.types().in(2))) {}

  void Run() {
    const CallTypes& types = kernel_.types();
    if (IsReducedBy(types, Reduction::kMean)) return Mean();
    if (IsReducedBy(types, Reduction::kExtreme)) return Extreme();
    if (IsReducedBy(types, Reduction::kProduct)) return Product();
    kernel_.MakeGrad(2);
    kernel_.MakeGrad(0);
  }

 private:
  // N = ones_like (grad).scatter_add (dim, index, ones_like (src))
  void Mean() {
    const int begun = kernel_.Take(self_);
    const int ones = kernel_.Take(source_);
    const int counts = kernel_.Take(self_);
    kernel_.Free(begun);
    kernel_.Free(ones);
    Pass(TruthsOf(kernel_.types().in(0)));
    const int self = TakeSelf();
    const int of_source = kernel_.Take(source_);
    const int gathered = kernel_.Take(source_);
    kernel_.MakeGrad(2);
    kernel_.Free(gathered);
    kernel_.Free(of_source);
    kernel_.Free(counts);
    GiveSelf(self);
  }

  // Shared among all that are equal to the result.
  void Extreme() {
    const int value = kernel_.Take(source_);
    const int self_is_result = Compared(self_);
    const int source_is_result = Compared(source_);
    const int count = kernel_.Take(self_);
    const int shared = kernel_.Take(self_);
    const int truths = scatters_ ? kernel_.Take({DType::kBool, self_.dims}) : kernel_.Take({});
    const int self = TakeSelf();
    kernel_.Free(truths);
    const int gathered = kernel_.Take(source_);
    const int of_source = scatters_ ? kernel_.Take({DType::kBool, source_.dims}) : kernel_.Take({});
    kernel_.MakeGrad(2, StridesLike(kernel_.types().in(2)));
    for (const int taken : {of_source, gathered, shared, count, source_is_result, self_is_result}) {
      kernel_.Free(taken);
    }
    kernel_.Free(value);
    GiveSelf(self);
  }

  // Of what is 0 the product of the others.
  void Product() {
    const TensorType truths = {DType::kBool, source_.dims};
    const int masked = Compared(self_);
    const int result = kernel_.Take(self_);
    const int divided = kernel_.Take(self_);
    const int self = TakeSelf();
    kernel_.Free(divided);
    const int zeros = kernel_.Take(truths);
    const std::vector<int> counts = {kernel_.Take(self_), kernel_.Take(source_),
                                     kernel_.Take(self_)};
    const int count = kernel_.Take(source_);
    for (const int taken : counts) kernel_.Free(taken);
    const int is_one = kernel_.Take(truths);
    const int single = kernel_.Take(truths);
    kernel_.Free(is_one);
    std::vector<int> taken = {count, single, zeros, masked, result};
    for (const bool of_self : {false, true, false, true, false, false, true, false}) {
      taken.push_back(kernel_.Take(of_self ? self_ : source_));
    }
    kernel_.MakeGrad(2, StridesLike(kernel_.types().in(2)));
    for (const int each : taken) kernel_.Free(each);
    GiveSelf(self);
  }

  // (a == b).to (dtype)
  int Compared(const TensorType& type) {
    const int truths = kernel_.Take({DType::kBool, type.dims});
    const int numbers = kernel_.Take(type);
    kernel_.Free(truths);
    return numbers;
  }

  // Where x is not reduced, its gradient gets zeros at the indices: one more tensor.
  int TakeSelf() {
    if (!IncludesSelf(kernel_.types())) return kernel_.Take(self_);
    kernel_.MakeGrad(0);
    return kernel_.Take({});
  }
  void GiveSelf(int self) {
    if (IncludesSelf(kernel_.types())) return;
    kernel_.MakeGrad(0);
    kernel_.Free(self);
  }

  void Pass(const TensorType& type) { kernel_.Free(kernel_.Take(type)); }

  Kernel& kernel_;
  bool scatters_;
  TensorType self_;
  TensorType source_;
};

constexpr Slots kReduced = In(0) | In(1) | In(2) | Out(0);

// --- Masks ---------------------------------------------------------------------

// A value that is a tensor has the sum of those elements of the gradient that were filled: nonzero
// counts, then selects; _unique sorts indices.  How many those are depends on data: their places
// and elements are not counted.
TensorType CountOfChosen(const CallTypes&) { return {DType::kInt32, {}}; }
TensorType CountOfUnique(const CallTypes&) { return {DType::kInt64, {}}; }
TensorType SumToCount(const CallTypes& call) {
  return {DType::kUint8, {CountBytes(Numel(call.out(0).dims), call.device())}};
}
TensorType SelectChosen(const CallTypes& call) {
  return {DType::kUint8, {SelectBytes(Numel(call.out(0).dims), call.device())}};
}
TensorType SortOfIndices(const CallTypes& call) {
  return {DType::kUint8, {SortKeysBytes(Numel(call.in(1).dims), DType::kInt64, call.device())}};
}
TensorType SelectUnique(const CallTypes& call) {
  return {DType::kUint8, {UniqueKeysBytes(Numel(call.in(1).dims), DType::kInt64, call.device())}};
}

// masked_scatter counts the mask's elements that are true before each.
TensorType MaskPlaces(const CallTypes& call) { return {DType::kInt64, {Numel(call.out(0).dims)}}; }
TensorType MaskScan(const CallTypes& call) {
  return {DType::kUint8, {ScanBytes(Numel(call.out(0).dims), call.framework().cub)}};
}

// --- Circular pads -------------------------------------------------------------

// ints: the pads, the last dimension's first.  x is copied into the middle, then each side from
// the other one: in backward each copy of a part of the result clones its whole gradient
// (CopySlices), and what the part is copied from has a gradient of the whole, too.
// Source: _pad_circular_symint of aten/src/ATen/native/PadNd.cpp, pytorch v2.11.0.
void CircularPadBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const TensorType whole = {types.out(0).dtype, types.out(0).dims};
  const std::vector<int64_t>& pads = types.ints();
  for (size_t i = pads.size(); i-- > 0;) {
    const size_t axis = whole.dims.size() - 1 - i / 2;
    if (pads[i] <= 0 || axis >= whole.dims.size()) continue;
    TensorType side = whole;
    side.dims[axis] = pads[i];
    const int clone = kernel.Take(whole);
    const int read = kernel.Take(side);
    kernel.Free(kernel.Take(side));
    kernel.Free(read);
    kernel.Free(clone);
  }
  const int clone = kernel.Take(whole);
  kernel.MakeGrad(0);
  kernel.Free(clone);
}

// x, y, which is copied into a part of x: CopySlices takes a copy of x's gradient, be it wanted or
// not, the part's of that, and fills it with zeros.
// Source: CopySlices::apply_impl of torch/csrc/autograd/functions/tensor.cpp, CopyBackwards,
// pytorch v2.11.0.
void CopySliceBackward(Kernel& kernel) {
  kernel.MakeGradAnyway(0);
  kernel.MakeGrad(1);
  if (kernel.IsWanted(0)) kernel.Take(AsSecond(kernel.types()));
}

constexpr OpRule kIndexingRules[] = {
    // x, indices, values
    {.name = "index_add",
     .in_place = InPlace::kResult,
     .gradients = {PassThrough(), kNoGradient, Reads(In(1) | In(2))},
     .backward = {MakeGrad(0), MakeGrad(2)}},
    {.name = "index_add.alpha",
     .in_place = InPlace::kResult,  // times a number
     .gradients = {PassThrough(), kNoGradient, Reads(In(1) | In(2))},
     .backward = {MakeGrad(0), ScratchWith(2, AsThird), MakeGrad(2)}},
    // What is a clone of the incoming gradient, written over, lies as that does.
    {.name = "index_copy",
     .in_place = InPlace::kResult,
     .gradients = {ReadsElementwise(In(1)), kNoGradient, Reads(In(1) | In(2))}},
    {.name = "index_fill",
     .strides = AsInput,
     .in_place = InPlace::kResult,
     .gradients = {ReadsElementwise(In(1))}},
    // x, indices, value
    {.name = "index_fill.Tensor",
     .strides = AsInput,
     .in_place = InPlace::kResult,
     .gradients = {ReadsElementwise(In(1)), kNoGradient, Reads(In(1))},
     .backward = {MakeGrad(0), ScratchWith(2, AsSecond), PassingWith(2, SortOfIndices),
                  ScratchWith(2, AsSecond), ScratchWith(2, CountOfUnique),
                  PassingWith(2, SelectUnique), DropScratch(), MakeGrad(2)}},
    // x, mask, value
    {.name = "masked_fill.Tensor",
     .in_place = InPlace::kIfNamed,
     .gradients = {Reads(In(1)), kNoGradient, Reads(In(1))},
     .backward = {MakeGrad(0), ScratchWith(2, CountOfChosen), PassingWith(2, SumToCount),
                  PassingWith(2, SelectChosen), DropScratch(), MakeGrad(2)}},
    {.name = "put",
     .strides = AsInput,
     .gradients = {ReadsElementwise(In(1)), kNoGradient, Reads(In(1) | In(2))},
     .backward = {ScratchWith(0, AsThird), MakeGrad(0), DropScratch(), MakeGrad(2)}},
    {.name = "put.accumulate",
     .strides = AsInput,
     .gradients = {PassThrough(), kNoGradient, Reads(In(1) | In(2))}},
    // x, values, indices…: the gradient of x has zeros at the indices.
    {.name = "index_put",
     .strides = AsInput,
     .in_place = InPlace::kResult,
     .autocast = AutocastPolicy::kWidest,
     .gradients = {ReadsElementwise(kIndices), Reads(kIndices)},
     .backward = {ScratchWith(0, AsSecond), MakeGrad(0), DropScratch(), MakeGrad(1)}},
    {.name = "copy_slice",
     .strides = AsInput,
     .in_place = InPlace::kAlways,
     .gradients = {ReadsElementwise({}), Reads({})},
     .run_backward = CopySliceBackward},
    {.name = "index_put.accumulate",
     .strides = AsInput,
     .in_place = InPlace::kResult,
     .gradients = {PassThrough(), Reads(kIndices)},
     .forward = {MakeOut(0), Scratch(SortedPlaces), Scratch(SortedPlaces), Scratch(SortedPlaces),
                 Scratch(SortedPlaces), Scratch(PlacesSort)}},
    // x, indices, values; ints: how
    {.name = "scatter_reduce",
     .gradients = {Reads(kReduced), kNoGradient, Reads(kReduced)},
     .forward = {MakeOut(0), Scratch(OnesOfMean), Scratch(CountsOfMean), Scratch(ZeroCounts)},
     .run_backward = [](Kernel& kernel) { ReducedBackward(kernel, true).Run(); }},
    {.name = "index_reduce",
     .gradients = {Reads(kReduced), kNoGradient, Reads(kReduced)},
     .forward = {MakeOut(0), Scratch(CountsOfMean), Scratch(OnesOfMean)},
     .run_backward = [](Kernel& kernel) { ReducedBackward(kernel, false).Run(); }},
    // x, mask, values
    {.name = "masked_scatter",
     .gradients = {Reads(In(1)), kNoGradient, Reads(In(1))},
     .forward = {MakeOut(0), Scratch(MaskPlaces), Passing(MaskScan), Scratch(DenseInput<2>)},
     // those that are taken, and zeros for the rest, joined
     .backward = {MakeGrad(0), ScratchWith(2, AsThird), MakeGrad(2)}},
    {.name = "pad.circular", .gradients = {Reads({})}, .run_backward = CircularPadBackward},
};

}  // namespace

std::span<const OpRule> IndexingRules() { return kIndexingRules; }

}  // namespace onnxfit
