// Views, copies and joins.  Sources: pytorch v2.6.0 derivatives.yaml; torch 2.11 events.
#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/operators/dispatcher.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

void MakeContiguous(Dispatcher& dispatcher, const AtenCall& call) {
  const NameId input = call.inputs[0];
  if (IsContiguous(dispatcher.TypeOf(input))) return dispatcher.ReturnSame(input);
  dispatcher.MakeResult("clone", {input}, kAsContiguous);
}

void ReturnOperand(Dispatcher& dispatcher, const AtenCall& call) {
  dispatcher.ReturnSame(call.inputs[0]);
}

// Python's x[:, a:b] is x itself where that is all of it (torch/csrc/autograd/
// python_variable_indexing.cpp, applySlicing).
void TakeSliceApart(Dispatcher& dispatcher, const AtenCall& call) {
  const NameId input = call.inputs[0];
  const bool is_whole = dispatcher.TypeOf(input).dims == dispatcher.TypeOf(call.outputs[0]).dims;
  if (is_whole && call.ints.empty()) return dispatcher.ReturnSame(input);
  dispatcher.MakeResult("slice", {input}, call.ints);
}

// x[a:b] = y writes into x.  Where a gradient would flow, torch.export's own call is left.
void WriteInto(Dispatcher& dispatcher, const AtenCall& call) {
  const auto needs_grad = [&](NameId name) {
    return name != kNoName && dispatcher.NeedsGrad(name);
  };
  const bool is_tracked = std::ranges::any_of(call.inputs, needs_grad);
  if (!is_tracked) return dispatcher.ReturnSame(call.inputs[0]);
  dispatcher.MakeResult("_slice_scatter", call.inputs);
}

// --- Complex numbers ------------------------------------------------------------

Dims StridesOfComplex(const CallTypes& call) {
  Dims strides = call.in(0).strides;
  if (!strides.empty()) strides.pop_back();
  for (int64_t& stride : strides) stride /= 2;
  return strides;
}

Dims StridesOfPairs(const CallTypes& call) {
  Dims strides = call.in(0).strides;
  for (int64_t& stride : strides) stride *= 2;
  strides.push_back(1);
  return strides;
}

// --- Windows, diagonals, strides -----------------------------------------------

Dims WindowsOf(const CallTypes& call) { return WindowStrides(call.in(0).strides, call.ints()); }

// Where windows overlap, backward counts the places of the dimension.
// Source: unfold_backward of aten/src/ATen/native/UnfoldBackward.cpp, pytorch v2.11.0.
TensorType PlacesOfWindows(const CallTypes& call) {
  const std::vector<int64_t>& ints = call.ints();
  if (call.in(0).dims.empty() || ints[2] >= ints[1]) return {};
  return {DType::kInt64, {call.in(0).dims[Index(ints[0])]}};
}

Dims DiagonalOf(const CallTypes& call) {
  return DiagonalStrides(call.in(0).strides, call.ints()[0], call.ints()[1]);
}

// ints: the strides, none of torch.export's adaptive_avg_pool2d.
Dims GivenStrides(const CallTypes& call) {
  if (call.ints().size() == call.out(0).dims.size()) return call.ints();
  return StridesOfView(call.in(0), call.out(0).dims).strides;
}

// Whether two indices may be the same place in memory.
// Source: _maybe_overlapping_memory of torch/csrc/autograd/FunctionsManual.cpp, pytorch v2.11.0.
bool MayOverlap(const CallTypes& call) {
  const Dims& dims = call.out(0).dims;
  if (call.ints().size() != dims.size()) return false;
  std::vector<std::pair<int64_t, int64_t>> by_stride;
  for (size_t i = 0; i < dims.size(); ++i) by_stride.emplace_back(call.ints()[i], dims[i]);
  std::ranges::sort(by_stride);
  int64_t last = 0;
  for (const auto& [stride, size] : by_stride) {
    if (size == 1) continue;
    if (stride <= last) return true;
    last += stride * (size - 1);
  }
  return false;
}
// Then the gradient is added up by the places of its elements.
TensorType AllPlaces(const CallTypes& call) {
  if (!MayOverlap(call)) return {};
  return {DType::kInt64, {Numel(call.in(0).dims)}};
}
TensorType PlacesOfElements(const CallTypes& call) {
  if (!MayOverlap(call)) return {};
  return {DType::kInt64, {Numel(call.out(0).dims)}};
}

// x, what is written over a part of it
// A clone of a part of the input: in the order of its dimensions.
Dims AsWhole(const CallTypes& call) { return StridesAs(call.out(0).dims, call.in(0).strides); }

// What ranks have, one rank's behind the other's, before it is put in order: not of one sample,
// which is in order then (_maybe_view_chunk_cat of torch/_utils.py, pytorch v2.11.0).
TensorType RankByRank(const StridedType& tokens) {
  return tokens.dims[0] > 1 ? TensorType(tokens) : TensorType();
}
TensorType GatheredTokens(const CallTypes& call) { return RankByRank(call.out(0)); }
TensorType GatheredGradient(const CallTypes& call) { return RankByRank(call.in(0)); }
TensorType LikeWritten(const CallTypes& call) { return {call.in(1).dtype, call.in(1).dims}; }

// One dimension after the other, of a tensor that is contiguous: the first time of a copy.
bool RollsTwice(const CallTypes& call) { return !call.ints().empty() && call.ints()[0] > 1; }
TensorType RolledOnce(const CallTypes& call) {
  return RollsTwice(call) ? LikeInput(call) : TensorType();
}
template <bool kTwice, TypeFunction kCopy>
TensorType ToRoll(const CallTypes& call) {
  return RollsTwice(call) == kTwice ? kCopy(call) : TensorType();
}

// --- Joins and pads ---

// Whatever they suggest, if all suggest the same.  Source: cat_compute_output_memory_format of
// aten/src/ATen/native/TensorShape.cpp, pytorch v2.11.0.
Dims InCommonFormat(const CallTypes& call) {
  const Dims& dims = call.out(0).dims;
  for (size_t i = 0; i < call.input_count(); ++i) {
    const bool is_last = call.in(i).dims.size() == dims.size() &&
                         SuggestedFormat(call.in(i)) == MemoryFormat::kChannelsLast;
    if (!is_last) return ContiguousStrides(dims);
  }
  return StridesIn(MemoryFormat::kChannelsLast, dims);
}

// The clone of a part of the incoming gradient.
// Source: constant_pad_nd of aten/src/ATen/native/PadNd.cpp, pytorch v2.11.0.
void PadBackward(Kernel& kernel) {
  const StridedType& gradient = kernel.types().incoming_gradient();
  kernel.MakeGrad(0, StridesAs(kernel.types().in(0).dims, gradient.strides));
}

// Of volumes the kernel reads any strides (reflection_pad3d_backward_out_cuda_template).
TensorType GradientOfReflection(const CallTypes& call) {
  return call.in(0).dims.size() == 5 ? TensorType() : DenseGradient(call);
}

// ints: kAsContiguous, kInSuggestedFormat, or none of what lies as x does.
Dims AsAsked(const CallTypes& call) {
  if (call.ints() == kAsContiguous) return ContiguousStrides(call.out(0).dims);
  return call.ints() == kInSuggestedFormat ? InFormat(call) : AsInput(call);
}

// --- Windows of pictures ---

// The result begins as a tensor in the input's shape, which is resized: it stays in that memory
// where it has room there, else it gets new one (im2col_cuda and col2im_cuda of
// aten/src/ATen/native/cuda, pytorch v2.11.0).
bool OutgrowsInput(const CallTypes& call) {
  return Numel(call.out(0).dims) > Numel(call.in(0).dims);
}
TensorType LargerOfBoth(const CallTypes& call) {
  return OutgrowsInput(call) ? LikeOutput(call) : LikeInput(call);
}
TensorType Outgrown(const CallTypes& call) {
  return OutgrowsInput(call) ? LikeInput(call) : TensorType();
}
// The copy is made behind what the result begins as.
TensorType CopyBefore(const CallTypes& call) {
  return OutgrowsInput(call) ? DenseInput<0>(call) : TensorType();
}
TensorType CopyBehind(const CallTypes& call) {
  return OutgrowsInput(call) ? TensorType() : DenseInput<0>(call);
}

// The gradient of one is the other one of the incoming gradient.
void WindowsBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const StridedType& gradient = types.incoming_gradient();
  const TensorType dense = {gradient.dtype, gradient.dims};
  const bool outgrows = Numel(types.in(0).dims) > Numel(gradient.dims);
  int begun = 0;
  if (outgrows) begun = kernel.Take(dense);
  if (!outgrows) kernel.MakeGrad(0, {}, gradient.dims);
  if (!IsContiguous(gradient)) kernel.Take(dense);
  if (!outgrows) return;
  kernel.MakeGrad(0);
  kernel.Free(begun);
}

// Autocast casts to the wider type.  cuDNN samples what is neither bf16 nor of more dimensions or
// channels than it takes; ints: whether the arguments are those that it knows.
// Source: grid_sampler of aten/src/ATen/native/GridSampler.cpp, cond_cudnn_grid_sampler of
// GridSamplerUtils.h, pytorch v2.11.0.
void TakeGridSamplerApart(Dispatcher& dispatcher, const AtenCall& call) {
  constexpr int64_t kMostChannels = 1024;
  std::vector<NameId> operands = {call.inputs[0], call.inputs[1]};
  const auto is_wide = [&](size_t i) { return BitsOf(dispatcher.TypeOf(operands[i]).dtype) > 16; };
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (is_wide(i) || !is_wide(1 - i)) continue;
    const DType wide = dispatcher.TypeOf(operands[1 - i]).dtype;
    operands[i] =
        dispatcher.Make("_to_copy", {operands[i]}, {wide, dispatcher.TypeOf(operands[i]).dims});
  }
  const StridedType& x = dispatcher.TypeOf(operands[0]);
  const bool is_known = !call.ints.empty() && call.ints[0] != 0;
  const bool is_taken =
      is_known && x.dtype != DType::kBFloat16 && x.dims.size() == 4 && x.dims[1] <= kMostChannels;
  dispatcher.MakeResult(is_taken ? "_cudnn_grid_sampler" : "_grid_sampler", operands);
}

// Of the places always, of the picture if it is wanted.
// Source: grid_sampler_2d_backward_cuda of aten/src/ATen/native/cuda/GridSampler.cpp.
void GridSamplerBackward(Kernel& kernel) {
  kernel.MakeGrad(0);
  kernel.MakeGradAnyway(1);
}

constexpr OpRule kViewRules[] = {
    // Exporters write reshape as view: where strides forbid one, it copies.
    {.name = "view",
     .take_apart = [](Dispatcher& d, const AtenCall& call) { d.ReshapeResult(call.inputs[0]); },
     .alias = Alias::kReshape,
     .gradients = {ViewOfGradient()}},
    // Of torch.export's adaptive_avg_pool2d, whose result gets the input's order of dimensions:
    // all but two of them are 1.
    {.name = "as_strided",
     .strides = GivenStrides,
     .alias = Alias::kReshape,
     .gradients = {Reads({})},
     .backward = {MakeGrad(0), Scratch(AllPlaces), Scratch(PlacesOfElements)}},
    {.name = "unfold",
     .strides = WindowsOf,
     .alias = Alias::kNarrow,
     .gradients = {Reads({})},
     .backward = {MakeGrad(0), Scratch(PlacesOfWindows)}},
    {.name = "diagonal", .strides = DiagonalOf, .alias = Alias::kNarrow, .gradients = {Reads({})}},
    {.name = "diag_embed", .gradients = {PartOfGradient()}},
    // A copy of x with a part written over: the gradient of x has zeros there, that of the part is
    // a part of it.
    {.name = "select_scatter",
     .gradients = {Reads({}), PartOfGradient()},
     .backward = {ScratchWith(0, LikeWritten), MakeGrad(0), DropScratch(), MakeGrad(1)}},
    {.name = "as_strided_scatter", .gradients = {Reads({}), PartOfGradient()}},
    {.name = "slice_scatter", .take_apart = WriteInto},
    {.name = "_slice_scatter", .strides = AsInput, .gradients = {ReadsElementwise({}), Reads({})}},
    {.name = "fill_", .take_apart = WriteInto},
    // ints: how many dimensions.
    {.name = "roll",
     .gradients = {Reads({})},
     .forward = {Scratch(ToRoll<true, DenseInput<0>>), Scratch(RolledOnce), DropScratch(0, 1),
                 Scratch(ToRoll<false, DenseInput<0>>), MakeOut(0)},
     .backward = {Scratch(ToRoll<true, DenseGradient>), Scratch(RolledOnce), DropScratch(0, 1),
                  Scratch(ToRoll<false, DenseGradient>), MakeGrad(0)}},
    {.name = "flip", .strides = AsInput, .gradients = {ReadsElementwise({})}},
    {.name = "unbind", .alias = Alias::kNarrow, .gradients = {Reads({})}},
    {.name = "contiguous", .take_apart = MakeContiguous},
    // What ranks are given alike: each has a part of its gradient, whose sum is a new tensor
    // (_FromTorchTensor.backward of torch/distributed/tensor/_api.py, pytorch v2.11.0).
    {.name = "from_local", .alias = Alias::kReshape, .gradients = {Reads({})}},
    // The sum of what ranks have: a clone that is reduced in place (all_reduce of
    // torch/csrc/distributed/c10d/Functional.cpp); its gradient is all ranks' own.
    {.name = "all_reduce", .gradients = {PassThrough()}},
    // What ranks have side by side, put together along the last dimension; its gradient is a copy
    // of the rank's own part (all_gather_tensor of torch/distributed/_functional_collectives.py,
    // Shard._replicate_to_shard).
    {.name = "all_gather", .gradients = {Reads({})}, .forward = {Scratch(LikeOutput), MakeOut(0)}},
    // The same of tokens, where all ranks go on alike, and where each goes on with features of its
    // own: then gradients are summed up, and each rank has its part of that, of which all parts are
    // put in order before (reduce_scatter_tensor, the same file).
    {.name = "gather_tokens",
     .gradients = {Reads({})},
     .forward = {Scratch(GatheredTokens), MakeOut(0)}},
    {.name = "gather_tokens_of_all",
     .gradients = {Reads({})},
     .forward = {Scratch(GatheredTokens), MakeOut(0)},
     .backward = {Scratch(LikeOutput), MakeGrad(0)}},
    // A copy of the rank's part of what all have; its gradient is that of all.
    {.name = "take_tokens",
     .strides = AsWhole,
     .gradients = {Reads({})},
     .backward = {Scratch(GatheredGradient), MakeGrad(0)}},
    // The rank's part of the sum of what all have, and the gradient of that.
    {.name = "reduce_scatter",
     .gradients = {Reads({})},
     .forward = {Scratch(LikeInput), MakeOut(0)},
     .backward = {Scratch(GatheredGradient), MakeGrad(0)}},
    // DTensor.from_local and nothing else.
    {.name = "as_distributed", .alias = Alias::kReshape, .gradients = {PassThrough()}},
    {.name = "clone", .strides = AsAsked, .gradients = {PassThrough()}},
    // Pairs of numbers in the last dimension, as complex ones, and back.
    {.name = "view_as_complex",
     .strides = StridesOfComplex,
     .alias = Alias::kNarrow,
     .gradients = {ViewOfGradient()}},
    {.name = "view_as_real",
     .strides = StridesOfPairs,
     .alias = Alias::kNarrow,
     .gradients = {ViewOfGradient()}},
    {.name = "permute", .alias = Alias::kPermute, .gradients = {ViewOfGradient()}},
    {.name = "expand", .alias = Alias::kExpand, .gradients = {PassThrough()}},
    {.name = "select", .alias = Alias::kNarrow, .gradients = {Reads({})}},
    // The gradient of a part is a tensor of the whole, zero elsewhere.
    {.name = "slice",
     .take_apart = TakeSliceApart,
     .alias = Alias::kNarrow,
     .gradients = {Reads({})}},
    {.name = "split", .alias = Alias::kNarrow, .gradients = {Reads({})}},
    // Each part's gradient is a narrow view of the incoming one.
    {.name = "cat",
     .strides = InCommonFormat,
     .promotes = true,
     .variadic = true,
     .gradients = {ViewOfGradient()}},
    {.name = "pad", .strides = InFormat, .gradients = {Reads({})}, .run_backward = PadBackward},
    {.name = "pad.reflect",
     .gradients = {Reads(In(0))},
     .forward = {MakeOut(0), Scratch(DenseInput<0>)},
     .backward = {MakeGrad(0), Scratch(GradientOfReflection)}},
    {.name = "pad.copies", .gradients = {Reads(In(0))}},  // repeats what is there
    {.name = "pixel_shuffle", .gradients = {Reads({})}},
    {.name = "im2col",
     .storage = LargerOfBoth,
     .gradients = {Reads({})},
     .forward = {Scratch(Outgrown), Scratch(CopyBefore), MakeOut(0), Scratch(CopyBehind)},
     .run_backward = WindowsBackward},
    // picture, places
    // What torch.einsum is given (program/einsum.h).
    {.name = "einsum_operand", .take_apart = ReturnOperand, .autocast = AutocastPolicy::kLower},
    {.name = "grid_sampler", .take_apart = TakeGridSamplerApart},
    {.name = "_grid_sampler",
     .gradients = {Reads(In(0) | In(1)), Reads(In(0) | In(1))},
     .run_backward = GridSamplerBackward},
    {.name = "_cudnn_grid_sampler",  // aten/src/ATen/native/cudnn/GridSampler.cpp
     .gradients = {Reads(In(0) | In(1)), Reads(In(0) | In(1))},
     .makes_all_gradients = [](const CallTypes&) { return true; },
     .forward = {Scratch(DenseInput<1>), MakeOut(0)},
     .backward = {Scratch(DenseInput<1>), MakeGrad(0), MakeGrad(1)}},
    {.name = "normal",  // of means, which are added to what is drawn: their gradient is zeros
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(LikeInput)}},
    {.name = "bernoulli"},  // empty(...).bernoulli_(p).div_(p), in the type of its first input
    {.name = "constant"},   // made from numbers: zeros, full, arange, rand
    {.name = "index_select", .gradients = {Reads(In(1))}},
    {.name = "gather", .gradients = {Reads(In(0) | In(1))}},
    // x, indices, values: the gradient of x is that of the result but zero at the indices.
    {.name = "scatter",
     .in_place = InPlace::kIfNamed,
     .gradients = {Reads(In(1)), kNoGradient, Reads(In(1))}},
    {.name = "scatter_add",
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kWidest,
     .gradients = {PassThrough(), kNoGradient, Reads(In(1))}},
};

}  // namespace

NameId MakeDense(Dispatcher& dispatcher, NameId name) {
  const StridedType& type = dispatcher.TypeOf(name);
  return IsContiguous(type) ? name : dispatcher.Make("clone", {name}, type, kAsContiguous);
}

NameId MakeInFormat(Dispatcher& dispatcher, NameId name) {
  const StridedType& type = dispatcher.TypeOf(name);
  if (IsContiguousIn(SuggestedFormat(type), type)) return name;
  return dispatcher.Make("clone", {name}, type, kInSuggestedFormat);
}

std::span<const OpRule> ViewRules() { return kViewRules; }

}  // namespace onnxfit
