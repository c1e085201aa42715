#include "estimator/eager/runner.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

size_t Index(int32_t id) { return static_cast<size_t>(id); }

struct WorkspaceRow {
  std::string_view label;
  int64_t bytes;
};

// Kept for the process, one a handle and thread.  Source: pytorch v2.6.0,
// aten/src/ATen/cuda/CublasHandlePool.cpp: 2 × 4096 KiB + 8 × 16 KiB on every card but
// Hopper; cublasLt 1 MiB, persistent from 2.8 to 2.11.
constexpr WorkspaceRow kWorkspaces[] = {
    {"cuBLAS workspace", 2 * 4096 * kKiB + 8 * 16 * kKiB},
    {"cublasLt workspace", 1 * kMiB},
};

// The steps of a row, or the default where it has none.
template <size_t N>
bool HasSteps(const std::array<Step, N>& steps) {
  return steps[0].type != Step::Type::kEnd;
}

Dims Permuted(const Dims& dims, const std::vector<int64_t>& permutation) {
  Dims result;
  for (const int64_t axis : permutation) result.push_back(dims[static_cast<size_t>(axis)]);
  return result;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  return inverse;
}

// Stride 0 where a dimension is new or was 1.
Dims ExpandedStrides(const Tensor& tensor, const Dims& dims) {
  const size_t added = dims.size() - tensor.dims.size();
  Dims strides(dims.size(), 0);
  for (size_t i = added; i < dims.size(); ++i) {
    if (tensor.dims[i - added] == dims[i]) strides[i] = tensor.strides[i - added];
  }
  return strides;
}

// Strides of a part of `tensor`: its own, without the dimensions that a selection drops.
Dims NarrowedStrides(const Tensor& tensor, const Dims& dims) {
  if (dims.size() == tensor.dims.size()) return tensor.strides;
  return ContiguousStrides(dims);
}

}  // namespace

Runner::Runner(const Program& program, Machine& machine, InPlaceUse in_place)
    : program_(program),
      machine_(machine),
      gradient_labels_(program.values.size(), -1),
      names_(program.values.size(), kNoTensor),
      leaves_(program.parameters.size(), kNoGradNode),
      in_place_(in_place) {
  for (const ProgramValue& value : program.values) {
    name_labels_.push_back(machine.AddLabel(value.name));
  }
  for (const AtenCall& call : program.calls) {
    rules_.push_back(&FindOpRule(call.op));
    labels_.push_back({.at = machine.AddLabel(call.where)});
  }
}

void Runner::Bind(NameId name, TensorId tensor) {
  const TensorId before = std::exchange(names_[Index(name)], tensor);
  if (machine_.kind(tensor) == Kind::kTemporary) machine_.SetKind(tensor, Kind::kActivation);
  if (before != kNoTensor) machine_.Release(before);
}

void Runner::Unbind(NameId name) {
  const TensorId before = std::exchange(names_[Index(name)], kNoTensor);
  if (before != kNoTensor) machine_.Release(before);
}

void Runner::BindParameter(int32_t index, TensorId tensor) {
  const GradNodeId leaf =
      machine_.NewNode({.call = GradNode::kLeaf, .parameter = index, .next = {}, .saved = {}});
  machine_.SetGradFn(tensor, {leaf, 0});
  leaves_[Index(index)] = leaf;
  names_[Index(program_.parameters[Index(index)])] = tensor;
}

void Runner::Run(int32_t index, bool grad) {
  const AtenCall& call = program_.calls[Index(index)];
  machine_.EnterOperator(labels_[Index(index)].at);
  Frame frame;
  for (const NameId name : call.inputs) {
    frame.inputs.push_back(name == kNoName ? kNoTensor : names_[Index(name)]);
  }
  frame.outputs.resize(call.outputs.size(), kNoTensor);
  Forward(index, frame);
  if (grad) Record(index, frame);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i] != kNoName) Bind(call.outputs[i], frame.outputs[i]);
  }
  for (const TensorId aux : frame.aux) {
    if (aux != kNoTensor) machine_.Release(aux);
  }
  if (frame.clone != kNoTensor) machine_.Release(frame.clone);
  for (const NameId name : call.dies) Unbind(name);
}

void Runner::Forward(int32_t index, Frame& frame) {
  const OpRule& rule = *rules_[Index(index)];
  in_backward_ = false;
  if (HasSteps(rule.forward)) {
    for (const Step& step : rule.forward) ForwardStep(index, step, frame);
  }
  for (size_t i = 0; i < frame.outputs.size(); ++i) {
    if (frame.outputs[i] == kNoTensor) frame.outputs[i] = MakeOutput(index, i, frame);
  }
  if (!HasSteps(rule.forward)) {
    for (int i = 0; i < static_cast<int>(rule.aux.size()); ++i) {
      ForwardStep(index, MakeAux(i), frame);
    }
  }
  for (const TensorId scratch : std::exchange(scratch_, {})) machine_.Release(scratch);
}

void Runner::ForwardStep(int32_t index, const Step& step, Frame& frame) {
  const auto slot = static_cast<size_t>(step.index);
  const AtenCall& call = program_.calls[Index(index)];
  switch (step.type) {
    case Step::Type::kOut:
      frame.outputs[slot] = MakeOutput(index, slot, frame);
      break;
    case Step::Type::kAux: {
      const AuxTensor& aux = rules_[Index(index)]->aux[slot];
      if (aux.type == nullptr) break;
      const auto inputs = TypesOf(call.inputs);
      const auto outputs = TypesOf(call.outputs);
      frame.aux[slot] = machine_.New(aux.type({inputs, outputs}), AuxLabel(index, slot));
      break;
    }
    case Step::Type::kScratch:
      TakeScratch(index, step.scratch);
      break;
    case Step::Type::kWorkspace:
      TakeWorkspace(static_cast<Workspace>(step.index));
      break;
    case Step::Type::kGrad:
    case Step::Type::kDropGradient:
    case Step::Type::kEnd:
      break;
  }
}

// An output that nobody names is made all the same, and dies with the call.
TensorId Runner::MakeOutput(int32_t index, size_t output, Frame& frame) {
  const AtenCall& call = program_.calls[Index(index)];
  const OpRule& rule = *rules_[Index(index)];
  const NameId name = call.outputs[output];
  if (name == kNoName) return kNoTensor;
  const TensorType& type = TypeOf(name);
  if (rule.alias != Alias::kNone && frame.inputs[0] != kNoTensor) {
    return MakeView(call, rule, type, frame.inputs[0]);
  }
  if (MayOverwrite(index, frame)) return Overwrite(index, frame);
  return machine_.New(type, name_labels_[Index(name)]);
}

// Nobody reads input 0 later, nobody saved it, and nobody else holds its storage.
bool Runner::MayOverwrite(int32_t index, const Frame& frame) const {
  const AtenCall& call = program_.calls[Index(index)];
  if (rules_[Index(index)]->in_place == InPlace::kAlways) return true;
  if (in_place_ == InPlaceUse::kNever || rules_[Index(index)]->in_place == InPlace::kNever) {
    return false;
  }
  const NameId name = call.inputs[0];
  if (name == kNoName || TypeOf(name) != TypeOf(call.outputs[0])) return false;
  const auto& last = call.last_reads;
  return std::find(last.begin(), last.end(), name) != last.end() &&
         machine_.tensor(frame.inputs[0]).references == 1 &&
         machine_.StorageReferences(frame.inputs[0]) == 1;
}

TensorId Runner::Overwrite(int32_t index, Frame& frame) {
  const AtenCall& call = program_.calls[Index(index)];
  const bool tracked = machine_.tensor(frame.inputs[0]).grad_fn.node != kNoGradNode;
  if (rules_[Index(index)]->in_place == InPlace::kClone && tracked) {
    frame.clone = machine_.New(TypeOf(call.inputs[0]), name_labels_[Index(call.inputs[0])]);
  }
  return machine_.Detach(frame.inputs[0]);
}

TensorId Runner::MakeView(const AtenCall& call, const OpRule& rule, const TensorType& type,
                          TensorId input) {
  const Tensor& base = machine_.tensor(input);
  switch (rule.alias) {
    case Alias::kPermute:
      return machine_.View(input, type.dims, Permuted(base.strides, call.ints));
    case Alias::kExpand:
      return machine_.View(input, type.dims, ExpandedStrides(base, type.dims));
    case Alias::kNarrow:
      return machine_.View(input, type.dims, NarrowedStrides(base, type.dims));
    case Alias::kReshape:
    case Alias::kNone:
      break;
  }
  ViewStrides view = StridesOfView(base, type.dims);
  if (view.possible) return machine_.View(input, type.dims, std::move(view.strides));
  return machine_.New(type, name_labels_[Index(call.outputs[0])]);
}

void Runner::Record(int32_t index, const Frame& frame) {
  const AtenCall& call = program_.calls[Index(index)];
  const bool differentiable =
      std::any_of(call.outputs.begin(), call.outputs.end(),
                  [&](NameId name) { return name != kNoName && IsFloat(TypeOf(name).dtype); });
  if (!differentiable) return;
  std::vector<Edge> next = NextEdges(index, frame);
  const bool wanted = std::any_of(next.begin(), next.end(),
                                  [](const Edge& edge) { return edge.node != kNoGradNode; });
  if (!wanted) return;
  std::vector<TensorId> saved = Save(index, next, frame);
  for (const TensorId tensor : saved) {
    if (machine_.kind(tensor) == Kind::kTemporary) machine_.SetKind(tensor, Kind::kActivation);
  }
  const GradNodeId node = machine_.NewNode({.call = index,
                                            .outputs = static_cast<int32_t>(call.outputs.size()),
                                            .next = std::move(next),
                                            .saved = std::move(saved)});
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i] == kNoName || !IsFloat(TypeOf(call.outputs[i]).dtype)) continue;
    machine_.SetGradFn(frame.outputs[i], {node, static_cast<int32_t>(i)});
  }
}

std::vector<Edge> Runner::NextEdges(int32_t index, const Frame& frame) {
  const OpRule& rule = *rules_[Index(index)];
  std::vector<Edge> next(frame.inputs.size());
  for (size_t i = 0; i < frame.inputs.size(); ++i) {
    const Gradient& gradient = GradientOf(rule, static_cast<int>(i));
    if (frame.inputs[i] == kNoTensor || gradient.form == Gradient::Form::kNone) continue;
    next[i] = machine_.tensor(frame.inputs[i]).grad_fn;
  }
  return next;
}

std::vector<TensorId> Runner::Save(int32_t index, const std::vector<Edge>& next,
                                   const Frame& frame) {
  const OpRule& rule = *rules_[Index(index)];
  Slots wanted;
  for (size_t i = 0; i < next.size() && i < kMaxInputSlots; ++i) {
    if (next[i].node != kNoGradNode) wanted = wanted | In(static_cast<int>(i));
  }
  const Slots slots = SavedForBackward(rule, wanted);
  const auto keeps = [&](Slots slot) { return rule.keeps_everything || slots.Has(slot); };
  std::vector<TensorId> saved;
  for (size_t i = 0; i < frame.inputs.size(); ++i) {
    const bool has_slot = i < kMaxInputSlots;
    if (frame.inputs[i] == kNoTensor) continue;
    if (!rule.keeps_everything && !(has_slot && keeps(In(static_cast<int>(i))))) continue;
    const TensorId kept = i == 0 && frame.clone != kNoTensor ? frame.clone : frame.inputs[i];
    machine_.Retain(kept);
    saved.push_back(kept);
  }
  for (size_t i = 0; i < frame.outputs.size() && i < kMaxOutputSlots; ++i) {
    if (frame.outputs[i] == kNoTensor || !keeps(Out(static_cast<int>(i)))) continue;
    saved.push_back(machine_.Detach(frame.outputs[i]));
  }
  for (size_t i = 0; i < frame.aux.size(); ++i) {
    if (frame.aux[i] == kNoTensor || !keeps(Aux(static_cast<int>(i)))) continue;
    machine_.Retain(frame.aux[i]);
    saved.push_back(frame.aux[i]);
  }
  return saved;
}

std::vector<TensorId> Runner::Gradients(GradNodeId node, std::vector<TensorId>& incoming) {
  const OpRule& rule = *rules_[Index(machine_.node(node).call)];
  const size_t inputs = machine_.node(node).next.size();
  in_backward_ = true;
  std::vector<TensorId> gradients(inputs, kNoTensor);
  if (HasSteps(rule.backward)) {
    for (const Step& step : rule.backward) BackwardStep(node, step, incoming, gradients);
  } else {
    for (size_t i = 0; i < inputs; ++i) MakeWantedGradient(node, i, incoming, gradients);
  }
  for (const TensorId scratch : std::exchange(scratch_, {})) machine_.Release(scratch);
  return gradients;
}

void Runner::BackwardStep(GradNodeId node, const Step& step, std::vector<TensorId>& incoming,
                          std::vector<TensorId>& gradients) {
  const int32_t call = machine_.node(node).call;
  switch (step.type) {
    case Step::Type::kGrad:
      MakeWantedGradient(node, static_cast<size_t>(step.index), incoming, gradients);
      break;
    case Step::Type::kScratch:
      TakeScratch(call, step.scratch);
      break;
    case Step::Type::kWorkspace:
      TakeWorkspace(static_cast<Workspace>(step.index));
      break;
    case Step::Type::kDropGradient:
      machine_.Release(std::exchange(incoming[0], kNoTensor));
      break;
    case Step::Type::kOut:
    case Step::Type::kAux:
    case Step::Type::kEnd:
      break;
  }
}

void Runner::MakeWantedGradient(GradNodeId node, size_t input,
                                const std::vector<TensorId>& incoming,
                                std::vector<TensorId>& gradients) {
  const GradNode& grad_node = machine_.node(node);
  if (input >= gradients.size() || grad_node.next[input].node == kNoGradNode) return;
  gradients[input] = MakeGradient(grad_node.call, input, incoming);
}

TensorId Runner::MakeGradient(int32_t call, size_t input, const std::vector<TensorId>& incoming) {
  const Gradient& gradient = GradientOf(*rules_[Index(call)], static_cast<int>(input));
  const NameId name = program_.calls[Index(call)].inputs[input];
  if (gradient.form != Gradient::Form::kNew && incoming[0] == kNoTensor) return kNoTensor;
  switch (gradient.form) {
    case Gradient::Form::kPassThrough:
      machine_.Retain(incoming[0]);
      return incoming[0];
    case Gradient::Form::kView:
      return ViewGradient(call, input, incoming[0]);
    case Gradient::Form::kNewLikeOut: {
      const Tensor& like = machine_.tensor(incoming[0]);
      return machine_.New({like.dtype, like.dims}, GradientLabel(name));
    }
    case Gradient::Form::kNew:
    case Gradient::Form::kNone:
      break;
  }
  return machine_.New(TypeOf(name), GradientLabel(name));
}

TensorId Runner::ViewGradient(int32_t call, size_t input, TensorId incoming) {
  const OpRule& rule = *rules_[Index(call)];
  const TensorType& type = InputType(call, input);
  const Tensor& gradient = machine_.tensor(incoming);
  if (rule.variadic) return machine_.View(incoming, type.dims, gradient.strides);
  if (rule.alias == Alias::kPermute) {
    const std::vector<int64_t> back = Inverse(program_.calls[Index(call)].ints);
    return machine_.View(incoming, type.dims, Permuted(gradient.strides, back));
  }
  ViewStrides view = StridesOfView(gradient, type.dims);
  if (view.possible) return machine_.View(incoming, type.dims, std::move(view.strides));
  return machine_.New(type, GradientLabel(program_.calls[Index(call)].inputs[input]));
}

void Runner::TakeWorkspace(Workspace workspace) {
  const auto library = static_cast<size_t>(workspace);
  TensorId& held = workspaces_[in_backward_ ? 1 : 0][library];
  if (held != kNoTensor) return;
  const WorkspaceRow& row = kWorkspaces[library];
  held = machine_.New({DType::kUint8, {row.bytes}}, machine_.AddLabel(std::string(row.label)),
                      Kind::kWorkspace);
}

void Runner::TakeScratch(int32_t index, TypeFunction type) {
  const AtenCall& call = program_.calls[Index(index)];
  const auto inputs = TypesOf(call.inputs);
  const auto outputs = TypesOf(call.outputs);
  CallLabels& labels = labels_[Index(index)];
  if (labels.scratch < 0) labels.scratch = machine_.AddLabel(call.where + ".scratch");
  scratch_.push_back(machine_.New(type({inputs, outputs}), labels.scratch));
}

const TensorType& Runner::InputType(int32_t call, size_t input) const {
  return TypeOf(program_.calls[Index(call)].inputs[input]);
}

std::vector<TensorType> Runner::TypesOf(const std::vector<NameId>& names) const {
  std::vector<TensorType> types;
  for (const NameId name : names) types.push_back(name == kNoName ? TensorType() : TypeOf(name));
  return types;
}

const TensorType& Runner::TypeOf(NameId name) const { return program_.values[Index(name)].type; }

LabelId Runner::GradientLabel(NameId name) {
  LabelId& label = gradient_labels_[Index(name)];
  if (label < 0) label = machine_.AddLabel(program_.values[Index(name)].name + ".grad");
  return label;
}

LabelId Runner::AuxLabel(int32_t index, size_t aux) {
  LabelId& label = labels_[Index(index)].aux[aux];
  const AtenCall& call = program_.calls[Index(index)];
  if (label < 0) {
    const std::string& output = program_.values[Index(call.outputs[0])].name;
    label = machine_.AddLabel(output + "." + std::string(rules_[Index(index)]->aux[aux].name));
  }
  return label;
}

}  // namespace onnxfit
