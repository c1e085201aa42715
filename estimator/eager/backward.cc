#include "estimator/eager/backward.h"

#include <algorithm>
#include <utility>

#include "estimator/eager/strides.h"
#include "estimator/eager/sum_scratch.h"

namespace onnxfit {
namespace {

class Formulas {
 public:
  Formulas(CallTable& calls, GradNodeId node, std::vector<TensorId>& incoming)
      : calls_(calls),
        machine_(calls.machine()),
        node_(machine_.node(node)),
        call_(calls.call(node_.call)),
        rule_(calls.rule(node_.call)),
        incoming_(incoming),
        gradients_(node_.next.size(), kNoTensor) {}

  std::vector<TensorId> Run() {
    if (rule_.backward[0].type != Step::Type::kEnd) {
      for (const Step& step : rule_.backward) Take(step);
    } else {
      for (size_t i = 0; i < gradients_.size(); ++i) MakeIfWanted(i);
    }
    for (const TensorId scratch : scratch_) machine_.Release(scratch);
    for (size_t i = 0; i < gradients_.size(); ++i) Validate(i);
    return std::move(gradients_);
  }

 private:
  void Take(const Step& step) {
    if (step.only_over_view && !node_.over_view) return;
    switch (step.type) {
      case Step::Type::kGrad:
        return MakeIfWanted(static_cast<size_t>(step.index));
      case Step::Type::kScratch:
        if (step.index >= 0 && !IsWanted(static_cast<size_t>(step.index))) return;
        scratch_.push_back(machine_.New(step.scratch({Inputs(), Outputs(), call_.ints}),
                                        calls_.ScratchLabel(node_.call)));
        return;
      case Step::Type::kWorkspace:
        if (!HasMadeGradient()) return;
        return calls_.TakeWorkspace(static_cast<Workspace>(step.index), Thread::kBackward);
      case Step::Type::kDropGradient:
        return machine_.Release(std::exchange(incoming_[0], kNoTensor));
      case Step::Type::kOut:
      case Step::Type::kAux:
      case Step::Type::kEnd:
        return;
    }
  }

  // No product that is wanted so far, no workspace.
  bool HasMadeGradient() const {
    return std::any_of(gradients_.begin(), gradients_.end(),
                       [](TensorId gradient) { return gradient != kNoTensor; });
  }

  // The types that tensors had when the call ran, under autocast too.
  TensorType InputType(size_t input) const {
    if (call_.inputs[input] == kNoName) return {};
    return {node_.input_dtypes[input], calls_.TypeOf(call_.inputs[input]).dims};
  }

  std::span<const TensorType> Inputs() {
    if (inputs_.empty()) {
      for (size_t i = 0; i < call_.inputs.size(); ++i) inputs_.push_back(InputType(i));
    }
    return inputs_;
  }

  std::span<const TensorType> Outputs() {
    if (outputs_.empty()) {
      for (const NameId name : call_.outputs) {
        outputs_.push_back(name == kNoName ? TensorType() : calls_.TypeOf(name));
        if (IsFloat(outputs_.back().dtype)) outputs_.back().dtype = node_.output_dtype;
      }
    }
    return outputs_;
  }

  bool IsWanted(size_t input) const {
    return input < gradients_.size() && node_.next[input].node != kNoGradNode;
  }

  void MakeIfWanted(size_t input) {
    if (IsWanted(input)) {
      gradients_[input] = Make(input);
    } else if (IsMadeAnyway(input)) {
      scratch_.push_back(Make(input));
    }
  }

  bool IsMadeAnyway(size_t input) {
    return rule_.makes_all_gradients != nullptr && input < call_.inputs.size() &&
           call_.inputs[input] != kNoName &&
           GradientOf(rule_, static_cast<int>(input)).form != Gradient::Form::kNone &&
           rule_.makes_all_gradients({Inputs(), Outputs(), call_.ints});
  }

  TensorId Make(size_t input) {
    const Gradient& gradient = GradientOf(rule_, static_cast<int>(input));
    const LabelId label = calls_.GradientLabel(call_.inputs[input]);
    if (gradient.form == Gradient::Form::kNew) return machine_.New(InputType(input), label);
    if (incoming_[0] == kNoTensor) return kNoTensor;
    switch (gradient.form) {
      case Gradient::Form::kPassThrough:
        machine_.Retain(incoming_[0]);
        return incoming_[0];
      case Gradient::Form::kView:
        return MakeView(input, label);
      case Gradient::Form::kChannelSum:
        return Sum(incoming_[0], kChannels, InputType(input), label);
      case Gradient::Form::kNewLikeOut:
        return machine_.New(
            {machine_.tensor(incoming_[0]).dtype, machine_.tensor(incoming_[0]).dims}, label);
      case Gradient::Form::kNew:
      case Gradient::Form::kNone:
        break;
    }
    return kNoTensor;
  }

  TensorId MakeView(size_t input, LabelId label) {
    const TensorType type = InputType(input);
    const Tensor& gradient = machine_.tensor(incoming_[0]);
    if (rule_.variadic) return machine_.View(incoming_[0], type.dims, gradient.strides);
    if (rule_.alias == Alias::kPermute) {
      return machine_.View(incoming_[0], type.dims,
                           Permuted(gradient.strides, Inverse(call_.ints)));
    }
    ViewStrides view = StridesOfView(gradient, type.dims);
    if (view.possible) return machine_.View(incoming_[0], type.dims, std::move(view.strides));
    return machine_.New(type, label);
  }

  static constexpr uint64_t kChannels = uint64_t{1} << 1;  // dimension 1

  // `of` summed up over the dimensions that are not in `kept`.
  TensorId Sum(TensorId of, uint64_t kept, const TensorType& type, LabelId label) {
    const Tensor& tensor = machine_.tensor(of);
    const SumShape shape = SumOver(tensor.dtype, tensor.dims, tensor.strides, kept);
    const TensorId sum = machine_.New(type, label);
    PassScratch(machine_, shape, calls_.ScratchLabel(node_.call));
    return sum;
  }

  // The dimensions of `from` that broadcasting to it left as they are in `to`.
  static uint64_t Kept(const Dims& from, const Dims& to) {
    uint64_t kept = 0;
    const size_t added = from.size() - std::min(from.size(), to.size());
    for (size_t i = added; i < std::min<size_t>(from.size(), 64); ++i) {
      if (to[i - added] == from[i]) kept |= uint64_t{1} << i;
    }
    return kept;
  }

  void Validate(size_t input) {
    TensorId& gradient = gradients_[input];
    if (gradient == kNoTensor) return;
    const TensorType wanted = InputType(input);
    const LabelId label = calls_.GradientLabel(call_.inputs[input]);
    if (machine_.tensor(gradient).dims != wanted.dims) {
      const TensorType summed = {machine_.tensor(gradient).dtype, wanted.dims};
      const uint64_t kept = Kept(machine_.tensor(gradient).dims, wanted.dims);
      machine_.Release(std::exchange(gradient, Sum(gradient, kept, summed, label)));
    }
    if (machine_.tensor(gradient).dtype != wanted.dtype) {
      machine_.Release(std::exchange(gradient, machine_.New(wanted, label)));
    }
  }

  CallTable& calls_;
  Machine& machine_;
  const GradNode& node_;
  const AtenCall& call_;
  const OpRule& rule_;
  std::vector<TensorId>& incoming_;
  std::vector<TensorId> gradients_;
  std::vector<TensorId> scratch_;
  std::vector<TensorType> inputs_;   // made when a row asks for them
  std::vector<TensorType> outputs_;  // the same
};

// A cast's gradient is cast back, that of a multiple multiplied: one more tensor.
std::vector<TensorId> GradientOfCast(CallTable& calls, GradNodeId id,
                                     const std::vector<TensorId>& incoming) {
  Machine& machine = calls.machine();
  const GradNode& node = machine.node(id);
  const TensorType type = {node.input_dtypes[0], machine.tensor(incoming[0]).dims};
  return {machine.New(type, calls.GradientLabel(node.cast_name))};
}

}  // namespace

std::vector<TensorId> Gradients(CallTable& calls, GradNodeId node,
                                std::vector<TensorId>& incoming) {
  if (calls.machine().node(node).call == GradNode::kCast) {
    return GradientOfCast(calls, node, incoming);
  }
  return Formulas(calls, node, incoming).Run();
}

}  // namespace onnxfit
