// The formulas of one node.
#include <algorithm>
#include <utility>

#include "estimator/eager/autograd.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

class Formulas : public Kernel {
 public:
  Formulas(CallTable& calls, GradNodeId node, std::vector<TensorId>& incoming)
      : calls_(calls),
        machine_(calls.machine()),
        id_(node),
        node_(machine_.node(node)),
        call_(calls.call(node_.call)),
        rule_(calls.rule(node_.call)),
        incoming_(incoming),
        incoming_type_(TypeOf(incoming[0])),
        types_(calls.program(), call_, calls.settings(), &incoming_type_),
        gradients_(node_.next.size(), kNoTensor) {}

  std::vector<TensorId> Run() {
    if (rule_.run_backward != nullptr) {
      rule_.run_backward(*this);
    } else if (rule_.backward[0].type != Step::Type::kEnd) {
      for (const Step& step : rule_.backward) Take(step);
    } else {
      for (size_t i = 0; i < gradients_.size(); ++i) MakeIfWanted(i);
    }
    DropScratch();
    return Finish();
  }

  std::vector<TensorId> Finish(std::vector<TensorId> gradients) {
    gradients_ = std::move(gradients);
    return Finish();
  }

  // --- for functions in rows ---

  const CallTypes& types() const override { return types_; }

  bool IsWanted(int input) const override {
    const auto i = static_cast<size_t>(input);
    return i < gradients_.size() && node_.next[i].node != kNoGradNode;
  }

  bool HasIncoming(int output) const override {
    const auto i = static_cast<size_t>(output);
    return i < incoming_.size() && incoming_[i] != kNoTensor;
  }

  void MakeGrad(int input, Dims strides, const Dims& storage) override {
    if (!IsWanted(input)) return;
    const auto i = static_cast<size_t>(input);
    const Gradient::Form form = GradientOf(rule_, input).form;
    const bool is_summed = form == Gradient::Form::kChannelSum;
    if (is_summed || form == Gradient::Form::kPassThrough) return MakeIfWanted(i);
    const LabelId label = calls_.GradientLabel(call_.inputs[i]);
    StridedType type = NewType(i);
    if (!strides.empty()) type.strides = std::move(strides);
    if (storage.empty()) {
      gradients_[i] = machine_.NewStrided(type, label);
      return;
    }
    const TensorId whole = machine_.New({type.dtype, storage}, label);
    gradients_[i] = machine_.View(whole, type.dims, type.strides);
    machine_.Release(whole);
  }

  void MakeGradAnyway(int input) override {
    if (IsWanted(input)) return MakeGrad(input, {}, {});
    const auto i = static_cast<size_t>(input);
    if (i >= call_.inputs.size() || call_.inputs[i] == kNoName) return;
    scratch_.push_back(machine_.NewStrided(NewType(i), calls_.GradientLabel(call_.inputs[i])));
  }

  void MakeGradsInOne(int first, const Dims& dims) override {
    const auto from = static_cast<size_t>(first);
    const LabelId label = calls_.GradientLabel(call_.inputs[from]);
    const TensorId whole = machine_.New({NewType(from).dtype, dims}, label);
    for (size_t i = from; i < gradients_.size(); ++i) {
      const StridedType type = NewType(i);
      if (IsWanted(static_cast<int>(i))) {
        gradients_[i] = machine_.View(whole, type.dims, type.strides);
      }
    }
    machine_.Release(whole);
  }

  int Take(const TensorType& type) override {
    scratch_.push_back(type.dtype == DType::kUndefined
                           ? kNoTensor
                           : machine_.New(type, calls_.ScratchLabel(node_.call)));
    return static_cast<int>(scratch_.size() - 1);
  }

  void Free(int taken) override {
    TensorId& scratch = scratch_[static_cast<size_t>(taken)];
    if (scratch != kNoTensor) machine_.Release(std::exchange(scratch, kNoTensor));
  }

  void Use(Workspace workspace) override {
    calls_.TakeWorkspace(node_.call, Uses(workspace), Thread::kBackward);
  }

 private:
  StridedType TypeOf(TensorId tensor) const {
    if (tensor == kNoTensor) return {};
    return machine_.tensor(tensor);
  }

  void Take(const Step& step) {
    if (step.only_over_view && !node_.over_view) return;
    switch (step.type) {
      case Step::Type::kGrad:
        return MakeIfWanted(static_cast<size_t>(step.index));
      case Step::Type::kScratch:
        return TakeScratch(step);
      case Step::Type::kWorkspace:
        if (!made_last_) return;
        return calls_.TakeWorkspace(node_.call, step, Thread::kBackward);
      case Step::Type::kDropGradient:
        return machine_.Release(std::exchange(incoming_[0], kNoTensor));
      case Step::Type::kDropScratch:
        return step.count == 0 ? DropScratch() : DropScratch(step.index, step.count);
      case Step::Type::kOut:
      case Step::Type::kAux:
      case Step::Type::kEnd:
        return;
    }
  }

  // One that nobody wants keeps its number.
  void TakeScratch(const Step& step) {
    const bool is_wanted = step.index < 0 || IsWanted(step.index);
    const int taken = Take(is_wanted ? step.scratch(types_) : TensorType());
    if (step.passes) Free(taken);
  }

  void DropScratch(int first, int count) {
    for (int i = first; i < first + count; ++i) Free(i);
  }

  void DropScratch() {
    for (TensorId& scratch : scratch_) {
      if (scratch != kNoTensor) machine_.Release(std::exchange(scratch, kNoTensor));
    }
  }

  const StridedType& InputType(size_t input) const {
    static const StridedType none;
    const NameId name = call_.inputs[input];
    return name == kNoName ? none : calls_.TypeOf(name);
  }

  void MakeIfWanted(size_t input) {
    const bool is_wanted = IsWanted(static_cast<int>(input));
    made_last_ = is_wanted || IsMadeAnyway(input);
    if (!made_last_) return;
    const TensorId made = Make(input);
    if (is_wanted) {
      gradients_[input] = made;
    } else {
      scratch_.push_back(made);
    }
  }

  bool IsMadeAnyway(size_t input) {
    return rule_.makes_all_gradients != nullptr && input < call_.inputs.size() &&
           call_.inputs[input] != kNoName &&
           GradientOf(rule_, static_cast<int>(input)).form != Gradient::Form::kNone &&
           rule_.makes_all_gradients(types_);
  }

  TensorId Make(size_t input) {
    const Gradient& gradient = GradientOf(rule_, static_cast<int>(input));
    const LabelId label = calls_.GradientLabel(call_.inputs[input]);
    if (gradient.form == Gradient::Form::kNewLikeIn) return MakeMatrix(input, label);
    if (gradient.form == Gradient::Form::kNew || gradient.form == Gradient::Form::kNewAsIn ||
        gradient.form == Gradient::Form::kNewInFormat ||
        gradient.form == Gradient::Form::kNewLikeOut) {
      return machine_.NewStrided(NewType(input), label);
    }
    if (gradient.form == Gradient::Form::kNewRows) return MakeRows(input, label);
    if (incoming_[0] == kNoTensor) return kNoTensor;
    switch (gradient.form) {
      case Gradient::Form::kRows:
        return MakeRows(input, label);
      case Gradient::Form::kPassThrough:
        machine_.Retain(incoming_[0]);
        return incoming_[0];
      case Gradient::Form::kView:
        return MakeView(input, label);
      case Gradient::Form::kExpanded:
        return machine_.View(incoming_[0], InputType(input).dims,
                             StridesOfSum(incoming_type_, InputType(input).dims));
      case Gradient::Form::kPart:
        return MakePart(input);
      case Gradient::Form::kChannelSum:
        return Sum(incoming_[0], kChannels, InputType(input), label);
      case Gradient::Form::kCastBack:
        return machine_.NewStrided(LikeIncoming(InputType(input).dtype), label);
      case Gradient::Form::kNew:
      case Gradient::Form::kNewLikeIn:
      case Gradient::Form::kNewAsIn:
      case Gradient::Form::kNewInFormat:
      case Gradient::Form::kNewLikeOut:
      case Gradient::Form::kNewRows:
      case Gradient::Form::kNone:
        break;
    }
    return kNoTensor;
  }

  // The values of a sparse gradient of a table [V, D]: a row for each index.  Those of the incoming
  // gradient are seen as such where it is contiguous.
  TensorId MakeRows(size_t input, LabelId label) {
    const StridedType& table = InputType(input);
    const TensorId indices = node_.saved[0];
    const Dims dims = {Numel(machine_.tensor(indices).dims), table.dims.back()};
    const bool is_seen = GradientOf(rule_, static_cast<int>(input)).form == Gradient::Form::kRows &&
                         IsContiguous(incoming_type_);
    const TensorId values = is_seen ? machine_.View(incoming_[0], dims, ContiguousStrides(dims))
                                    : machine_.New({table.dtype, dims}, label);
    machine_.SetIndices(values, indices);
    return values;
  }

  // A gradient that is new, as its form says.
  StridedType NewType(size_t input) const {
    const StridedType& type = InputType(input);
    switch (GradientOf(rule_, static_cast<int>(input)).form) {
      case Gradient::Form::kNewAsIn:
        return {type, StridesLike(type)};
      case Gradient::Form::kNewInFormat:
        return {type, StridesIn(SuggestedFormat(type), type.dims)};
      case Gradient::Form::kNewLikeOut:
        return Elementwise(GradientOf(rule_, static_cast<int>(input)).reads);
      default:
        return Contiguous(type);
    }
  }

  // The gradient of a transposed matrix is made as that of the matrix, then transposed.
  TensorId MakeMatrix(size_t input, LabelId label) {
    const StridedType& type = calls_.TypeOf(call_.inputs[input]);
    if (IsContiguous(type) || type.dims.size() != 2 || !IsDense(type)) {
      return machine_.New(type, label);
    }
    const TensorId made = machine_.New({type.dtype, {type.dims[1], type.dims[0]}}, label);
    const TensorId transposed = machine_.View(made, type.dims, type.strides);
    machine_.Release(made);
    return transposed;
  }

  StridedType LikeIncoming(DType dtype) const {
    return {{dtype, incoming_type_.dims}, StridesLike(incoming_type_)};
  }

  // What an elementwise formula makes of the incoming gradient and of `reads`, which decide where
  // the gradient is broadcast.
  StridedType Elementwise(Slots reads) const {
    const Dims& dims = incoming_type_.dims;
    std::vector<const StridedType*> operands = {&incoming_type_};
    for (size_t i = 0; i < call_.inputs.size() && i < kMaxInputSlots; ++i) {
      const bool is_read = reads.Has(In(static_cast<int>(i))) && call_.inputs[i] != kNoName;
      if (is_read && BroadcastsTo(InputType(i).dims, dims)) operands.push_back(&InputType(i));
    }
    if (operands.size() == 1 || IsDense(incoming_type_)) return LikeIncoming(incoming_type_.dtype);
    return {{incoming_type_.dtype, dims}, ElementwiseStrides(dims, operands)};
  }

  static bool BroadcastsTo(const Dims& from, const Dims& to) {
    if (from.size() > to.size()) return false;
    const size_t added = to.size() - from.size();
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != 1 && from[i] != to[i + added]) return false;
    }
    return true;
  }

  TensorId MakeView(size_t input, LabelId label) {
    const TensorType& type = InputType(input);
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

  // ints: the dimension of a selection, two of a diagonal.
  TensorId MakePart(size_t input) {
    const Dims& dims = InputType(input).dims;
    const Tensor& gradient = machine_.tensor(incoming_[0]);
    const bool is_smaller = dims.size() < gradient.strides.size();
    const std::vector<int64_t>& ints = call_.ints;
    return machine_.View(incoming_[0], dims,
                         is_smaller && ints.size() == 2
                             ? DiagonalStrides(gradient.strides, ints[0], ints[1])
                             : NarrowedStrides(gradient, dims, ints));
  }

  static constexpr uint64_t kChannels = uint64_t{1} << 1;  // dimension 1

  // A pipeline's schedule.step() is under torch.autocast as a whole, backward, too, whose sums are
  // in fp32 then (AT_FORALL_FP32_SET_OPT_DTYPE, aten/src/ATen/autocast_mode.h, pytorch v2.11.0).
  DType SumType(DType type) const {
    const bool is_in_autocast = calls_.settings().ranks.strategy == Strategy::kPipeline &&
                                AutocastType(calls_.settings().precision) != DType::kUndefined;
    return is_in_autocast && IsFloat(type) ? DType::kFloat32 : type;
  }

  // `of` summed up over the dimensions that are not in `kept`.
  TensorId Sum(TensorId of, uint64_t kept, const TensorType& type, LabelId label) {
    const Tensor& tensor = machine_.tensor(of);
    const SumShape shape = SumOver(tensor.dtype, tensor.dims, tensor.strides, kept);
    const TensorId sum = machine_.New({SumType(type.dtype), type.dims}, label);
    PassScratch(machine_, shape, types_.device(), calls_.ScratchLabel(node_.call));
    return sum;
  }

  // at::sum_to: where dimensions go that broadcasting put in front, the sum is seen without them
  // (ATen/ExpandUtils.h, pytorch v2.6.0).
  TensorId SumTo(TensorId of, const Dims& dims, LabelId label) {
    const Tensor& tensor = machine_.tensor(of);
    const bool loses_dims = tensor.dims.size() > dims.size();
    const TensorId sum = Sum(of, Kept(tensor.dims, dims), {tensor.dtype, dims}, label);
    if (!loses_dims) return sum;
    const TensorId view = machine_.View(sum, dims, ContiguousStrides(dims));
    machine_.Release(sum);
    return view;
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

  std::vector<TensorId> Finish() {
    machine_.ReleaseUnpacked(id_);
    for (size_t i = 0; i < gradients_.size(); ++i) Validate(i);
    return std::move(gradients_);
  }

  void Validate(size_t input) {
    TensorId& gradient = gradients_[input];
    if (gradient == kNoTensor || machine_.tensor(gradient).indices != kNoTensor) return;
    const TensorType& wanted = InputType(input);
    const LabelId label = calls_.GradientLabel(call_.inputs[input]);
    if (machine_.tensor(gradient).dims != wanted.dims) {
      machine_.Release(std::exchange(gradient, SumTo(gradient, wanted.dims, label)));
    }
    if (machine_.tensor(gradient).dtype != wanted.dtype) {
      const StridedType& made = machine_.tensor(gradient);
      const StridedType cast = {wanted, StridesLike(made)};
      machine_.Release(std::exchange(gradient, machine_.NewStrided(cast, label)));
    }
  }

  CallTable& calls_;
  Machine& machine_;
  const GradNodeId id_;
  const GradNode& node_;
  const AtenCall& call_;
  const OpRule& rule_;
  std::vector<TensorId>& incoming_;
  const StridedType incoming_type_;  // of the first
  const CallTypes types_;
  std::vector<TensorId> gradients_;
  std::vector<TensorId> scratch_;
  bool made_last_ = false;  // a workspace is for the gradient before it
};

// The gradient of a multiple is multiplied: one more number.
std::vector<TensorId> GradientOfMultiple(CallTable& calls, GradNodeId id) {
  const TensorType type = {calls.machine().node(id).multiple_of, {}};
  return {calls.machine().New(type, calls.GradientLabel(calls.program().loss))};
}

}  // namespace

std::vector<TensorId> Gradients(CallTable& calls, GradNodeId node,
                                std::vector<TensorId>& incoming) {
  if (calls.machine().node(node).call == GradNode::kMultiple) {
    return GradientOfMultiple(calls, node);
  }
  return Formulas(calls, node, incoming).Run();
}

std::vector<TensorId> Validated(CallTable& calls, GradNodeId node,
                                std::vector<TensorId> gradients) {
  std::vector<TensorId> incoming(Index(std::max(calls.machine().node(node).outputs, 1)), kNoTensor);
  return Formulas(calls, node, incoming).Finish(std::move(gradients));
}

}  // namespace onnxfit
