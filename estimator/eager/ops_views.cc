// Views, copies and joins.  Sources: pytorch v2.6.0 derivatives.yaml; torch 2.11 events.
#include <algorithm>

#include "estimator/eager/dispatcher.h"
#include "estimator/eager/op_rule.h"
#include "estimator/eager/strides.h"

namespace onnxfit {
namespace {

void MakeContiguous(Dispatcher& dispatcher, const AtenCall& call) {
  const NameId input = call.inputs[0];
  if (IsContiguous(dispatcher.TypeOf(input))) return dispatcher.ReturnSame(input);
  dispatcher.MakeResult("clone", {input});
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

// One dimension after the other.
TensorType RolledOnce(const CallTypes& call) {
  return call.ints().empty() || call.ints()[0] < 2 ? TensorType() : LikeInput(call);
}

constexpr OpRule kViewRules[] = {
    // Exporters write reshape as view: where strides forbid one, it copies.
    {.name = "view",
     .take_apart = [](Dispatcher& d, const AtenCall& call) { d.ReshapeResult(call.inputs[0]); },
     .alias = Alias::kReshape,
     .gradients = {ViewOfGradient()}},
    // Of torch.export's adaptive_avg_pool2d, whose result gets the input's order of dimensions:
    // all but two of them are 1.
    {.name = "as_strided", .alias = Alias::kReshape, .gradients = {Reads({})}},
    {.name = "slice_scatter", .take_apart = WriteInto},
    {.name = "_slice_scatter", .gradients = {Reads({}), Reads({})}},
    {.name = "fill_", .take_apart = WriteInto},
    // ints: how many dimensions.
    {.name = "roll",
     .gradients = {Reads({})},
     .forward = {Scratch(RolledOnce), MakeOut(0)},
     .backward = {Scratch(RolledOnce), MakeGrad(0)}},
    {.name = "flip", .gradients = {Reads({})}},
    {.name = "unbind", .alias = Alias::kNarrow, .gradients = {Reads({})}},
    {.name = "contiguous", .take_apart = MakeContiguous},
    {.name = "clone", .gradients = {PassThrough()}},
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
    {.name = "cat", .promotes = true, .variadic = true, .gradients = {ViewOfGradient()}},
    {.name = "pad", .gradients = {Reads({})}},
    {.name = "pad.copies", .gradients = {Reads(In(0))}},  // reflects or repeats what is there
    {.name = "pixel_shuffle", .gradients = {Reads({})}},
    {.name = "upsample_nearest2d", .autocast = AutocastPolicy::kFp32, .gradients = {Reads({})}},
    {.name = "bernoulli"},  // empty(...).bernoulli_(p).div_(p), in the type of its first input
    {.name = "constant"},   // made from numbers: zeros, full, arange, rand
    {.name = "repeat", .gradients = {Reads({})}},
    {.name = "index_select", .gradients = {Reads(In(1))}},
    {.name = "gather", .gradients = {Reads(In(0) | In(1))}},
    // x, indices, values: the gradient of x is that of the result but zero at the indices.
    {.name = "scatter", .gradients = {Reads(In(1)), kNoGradient, Reads(In(1))}},
    {.name = "topk", .gradients = {Reads(Out(1))}},  // values, indices
    {.name = "scatter_add", .gradients = {PassThrough(), kNoGradient, Reads(In(1))}},
};

}  // namespace

std::span<const OpRule> ViewRules() { return kViewRules; }

}  // namespace onnxfit
