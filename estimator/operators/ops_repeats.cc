// Copies in which what is there stands several times.  Sources: aten/src/ATen/native/{Repeat,
// TensorShape}.cpp and torch/csrc/autograd/FunctionsManual.cpp, pytorch v2.11.0; torch 2.11 events.
#include <algorithm>
#include <cstddef>
#include <optional>

#include "estimator/operators/dispatcher.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// --- x.repeat ---

// What is repeated once in each of its dimensions has its gradient as it comes.
void TakeRepeatApart(Dispatcher& dispatcher, const AtenCall& call) {
  const NameId input = call.inputs[0];
  const bool is_once = dispatcher.TypeOf(input).dims == dispatcher.TypeOf(call.outputs[0]).dims;
  if (is_once) return dispatcher.MakeResult("clone", {input}, kAsContiguous);
  dispatcher.MakeResult("_repeat", {input});
}

// repeat_backward: the dimensions that repeat puts before are summed up one after the other, then
// at once those in which the input stands several times.
class RepeatBackward {
 public:
  explicit RepeatBackward(Kernel& kernel)
      : kernel_(kernel),
        input_(kernel.types().in(0).dims),
        gradient_(kernel.types().incoming_gradient()) {}

  void Run() {
    while (gradient_.dims.size() > input_.size()) SumFirst();
    if (gradient_.dims != input_) SumRepeats();
  }

 private:
  void SumFirst() {
    constexpr uint64_t kAllButFirst = ~uint64_t{1};
    Sum({gradient_.dims.begin() + 1, gradient_.dims.end()}, kAllButFirst);
  }

  // A dimension that is repeated is seen as two, the times first.
  void SumRepeats() {
    Dims apart;
    uint64_t kept = 0;
    for (size_t i = 0; i < input_.size(); ++i) {
      if (gradient_.dims[i] != input_[i]) apart.push_back(gradient_.dims[i] / input_[i]);
      kept |= uint64_t{1} << apart.size();
      apart.push_back(input_[i]);
    }
    const ViewStrides view = StridesOfView(gradient_, apart);
    if (!view.possible) Hold(kernel_.Take({gradient_.dtype, apart}));
    const TensorType type = {gradient_.dtype, apart};
    gradient_ = view.possible ? StridedType{type, view.strides} : Contiguous(type);
    Sum(input_, kept);
  }

  void Sum(const Dims& dims, uint64_t kept) {
    const TensorType type = {gradient_.dtype, dims};
    std::optional<int> sum;
    if (dims == input_) {
      kernel_.MakeGrad(0);
    } else {
      sum = kernel_.Take(type);
    }
    PassSumScratch(kept);
    Hold(sum);
    gradient_ = Contiguous(type);
  }

  void PassSumScratch(uint64_t kept) {
    const SumShape shape = SumOver(gradient_.dtype, gradient_.dims, gradient_.strides, kept);
    const SumScratch scratch = ScratchOf(shape, kernel_.types().device());
    const int partial = kernel_.Take(ScratchBytes(scratch.partial_bytes));
    kernel_.Free(kernel_.Take(ScratchBytes(scratch.semaphore_bytes)));
    kernel_.Free(partial);
  }

  // In place of the gradient so far.
  void Hold(std::optional<int> taken) {
    if (held_) kernel_.Free(*held_);
    held_ = taken;
  }

  Kernel& kernel_;
  const Dims& input_;
  StridedType gradient_;
  std::optional<int> held_;
};

// --- x.repeat_interleave ---

// The first dimension of `dims` that is another one of `repeated`, or the last.
size_t RepeatedDim(const Dims& dims, const Dims& repeated) {
  size_t dim = 0;
  while (dim + 1 < dims.size() && dims[dim] == repeated[dim]) ++dim;
  return dim;
}

// A copy of a view in which each element stands as often: backward has nothing to add up where it
// stands there once.  Without a dimension (dim=None) it is of the elements in a row.
// Source: repeat_interleave_symint.
void TakeRepeatsApart(Dispatcher& dispatcher, const AtenCall& call) {
  const StridedType& input = dispatcher.TypeOf(call.inputs[0]);
  const DType dtype = input.dtype;
  const Dims repeated = dispatcher.TypeOf(call.outputs[0]).dims;
  Dims dims = input.dims.size() == repeated.size() ? input.dims : Dims{Numel(input.dims)};
  const size_t dim = RepeatedDim(dims, repeated);
  const int64_t times = repeated[dim] / std::max(dims[dim], int64_t{1});
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(dim) + 1, 1);
  const NameId apart = dispatcher.Reshape(call.inputs[0], dims);
  dims[dim + 1] = times;
  const NameId expanded = dispatcher.Make("expand", {apart}, {dtype, dims});
  const NameId copy = dispatcher.Make("clone", {expanded}, {dtype, dims}, kAsContiguous);
  dispatcher.MakeResult("view", {copy});
}

constexpr OpRule kRepeatRules[] = {
    {.name = "repeat", .take_apart = TakeRepeatApart},
    {.name = "_repeat",
     .gradients = {Reads({})},
     .run_backward = [](Kernel& kernel) { RepeatBackward(kernel).Run(); }},
    {.name = "repeat_interleave", .take_apart = TakeRepeatsApart},
};

}  // namespace

std::span<const OpRule> RepeatRules() { return kRepeatRules; }

}  // namespace onnxfit
