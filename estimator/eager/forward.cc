#include "estimator/eager/forward.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

bool HaveSameType(const TensorType& a, const TensorType& b) { return a == b; }

}  // namespace

Forward::Forward(CallTable& calls, const TrainingSettings& settings)
    : calls_(calls),
      machine_(calls.machine()),
      in_place_(settings.in_place),
      names_(calls.program().values.size(), kNoTensor),
      is_cached_(calls.program().values.size()),
      overwrote_(calls.program().calls.size()),
      has_run_(calls.program().calls.size()) {
  for (const NameId name : calls.program().cached_casts) is_cached_[Index(name)] = true;
  FindFunctions();
}

void Forward::Bind(NameId name, TensorId tensor) {
  const TensorId before = std::exchange(names_[Index(name)], tensor);
  if (machine_.kind(tensor) == Kind::kTemporary) machine_.SetKind(tensor, Kind::kActivation);
  machine_.NoteRelease(HolderOf(name), name);
  machine_.NoteHolder(name, {.type = HolderOf(name), .id = name}, tensor);
  if (before != kNoTensor) machine_.Release(before);
}

Holder::Type Forward::HolderOf(NameId name) const {
  return is_cached_[Index(name)] ? Holder::Type::kCache : Holder::Type::kName;
}

TensorId Forward::Take(NameId name) {
  machine_.NoteRelease(HolderOf(name), name);
  return std::exchange(names_[Index(name)], kNoTensor);
}

void Forward::Unbind(NameId name) {
  const TensorId before = Take(name);
  if (before != kNoTensor) machine_.Release(before);
}

void Forward::Run(size_t first, size_t last, bool grad) {
  if (first == 0 && !has_several_passes_) activations_.clear();
  if (first == 0 && grad && !stores_.empty()) MakeDicts();
  for (size_t i = first; i < last; ++i) {
    const int32_t span = grad && !span_at_.empty() ? span_at_[i] : -1;
    if (span >= 0 && is_reentrant_) {
      RunWithoutGradients(span);
      i = Index(spans_[Index(span)].last);
    } else {
      if (span >= 0) EnterSpan(span);
      RunHooked(static_cast<int32_t>(i), grad);
    }
    if (is_inside_ && Index(spans_[Index(activations_.back().span)].last) == i) LeaveSpan();
    if (!dicts_.empty() && i == Index(last_store_)) LeaveDicts();
  }
}

void Forward::RunHooked(int32_t index, bool grad) {
  if (IsOfOtherBackward(index)) return Run(index, grad);
  if (hooks_.before) hooks_.before(index, /*again=*/false);
  Run(index, grad);
  if (hooks_.after) hooks_.after(index, /*again=*/false);
}

void Forward::Run(int32_t index, bool grad) {
  const AtenCall& call = calls_.call(index);
  if (call.action >= 0 || IsOfOtherBackward(index) || RunPart(call, index, grad) || HasRun(index)) {
    for (const NameId name : call.dies) Unbind(name);
    return;
  }
  has_run_[Index(index)] = true;
  machine_.EnterOperator(calls_.OperatorLabel(index));
  Frame frame = Enter(index);
  Allocate(index, frame);
  if (grad || KeepsCast(call)) {
    call.leaves_autograd ? KeepHistory(index, frame) : Record(index, frame);
  }
  Leave(index, frame);
  if (!stores_.empty()) StoreMadeBy(index);
  if (grad) AskForGradients(index);
}

// Whether what call `index` makes is there: a module or torch.autocast has kept it.
bool Forward::HasRun(int32_t index) const {
  const AtenCall& call = calls_.call(index);
  if (call.made_once && has_run_[Index(index)]) return true;
  return KeepsCast(call) && names_[Index(call.outputs[0])] != kNoTensor;
}

// Whether `call` casts for several passes, with a history even under torch.no_grad(): what a pass
// without gradients has cast serves those with gradients (found out with pytorch 2.11.0).
bool Forward::KeepsCast(const AtenCall& call) const {
  return has_several_passes_ && call.is_autocasts && is_cached_[Index(call.outputs[0])];
}

void Forward::BeginPasses() {
  has_several_passes_ = true;
  activations_.clear();
}

Forward::Frame Forward::Enter(int32_t index) const {
  const AtenCall& call = calls_.call(index);
  Frame frame;
  for (const NameId name : call.inputs) {
    frame.inputs.push_back(name == kNoName ? kNoTensor : names_[Index(name)]);
  }
  frame.outputs.resize(call.outputs.size(), kNoTensor);
  return frame;
}

// Results get their names; what only the call held dies, then what nobody reads any more.
void Forward::Leave(int32_t index, Frame& frame) {
  const AtenCall& call = calls_.call(index);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i] != kNoName) Bind(call.outputs[i], frame.outputs[i]);
  }
  for (const TensorId aux : frame.aux) {
    if (aux != kNoTensor) machine_.Release(aux);
  }
  if (frame.clone != kNoTensor) machine_.Release(frame.clone);
  DropScratch(onnxfit::DropScratch(), frame);
  for (const NameId name : call.dies) Unbind(name);
}

void Forward::Allocate(int32_t index, Frame& frame) {
  const OpRule& rule = calls_.rule(index);
  const bool has_steps = rule.forward[0].type != Step::Type::kEnd;
  for (const Step& step : rule.forward) Take(index, step, frame);
  for (size_t i = 0; i < frame.outputs.size(); ++i) {
    if (frame.outputs[i] == kNoTensor) frame.outputs[i] = MakeOutput(index, i, frame);
  }
  for (size_t i = 0; i < rule.aux.size() && !has_steps; ++i) MakeAux(index, i, frame);
}

void Forward::Take(int32_t index, const Step& step, Frame& frame) {
  const auto slot = static_cast<size_t>(step.index);
  switch (step.type) {
    case Step::Type::kOut:
      if (slot < frame.outputs.size()) frame.outputs[slot] = MakeOutput(index, slot, frame);
      return;
    case Step::Type::kAux:
      return MakeAux(index, slot, frame);
    case Step::Type::kWorkspace:
      // Autograd's own thread, which has a handle of its own, computes again.
      return calls_.TakeWorkspace(index, step,
                                  is_in_backward_ ? Thread::kBackward : Thread::kForward);
    case Step::Type::kScratch:
      return MakeScratch(index, step, frame);
    case Step::Type::kDropScratch:
      return DropScratch(step, frame);
    case Step::Type::kGrad:  // of backward alone, as tests/op_rule_test.cc checks
    case Step::Type::kDropGradient:
    case Step::Type::kEnd:
      return;
  }
}

void Forward::MakeAux(int32_t index, size_t slot, Frame& frame) {
  const AuxTensor& aux = calls_.rule(index).aux[slot];
  if (aux.type == nullptr || (aux.for_gradients && is_without_gradients_)) return;
  const TensorType type = aux.type(calls_.TypesOf(index));
  if (type.dtype == DType::kUndefined) return;
  frame.aux[slot] = machine_.New(type, calls_.AuxLabel(index, slot));
}

void Forward::MakeScratch(int32_t index, const Step& step, Frame& frame) {
  const TensorType type = step.scratch(calls_.TypesOf(index));
  const bool is_made = type.dtype != DType::kUndefined;
  frame.scratch.push_back(is_made ? machine_.New(type, calls_.ScratchLabel(index)) : kNoTensor);
  if (step.passes && is_made) machine_.Release(std::exchange(frame.scratch.back(), kNoTensor));
}

// One that is not made, or gone, keeps its number.
void Forward::DropScratch(const Step& step, Frame& frame) {
  const auto first = static_cast<size_t>(step.index);
  const size_t end = step.count == 0 ? frame.scratch.size() : first + Index(step.count);
  for (size_t i = first; i < end; ++i) {
    const TensorId scratch = std::exchange(frame.scratch[i], kNoTensor);
    if (scratch != kNoTensor) machine_.Release(scratch);
  }
}

// An output that nobody names is not made.
TensorId Forward::MakeOutput(int32_t index, size_t output, Frame& frame) {
  const NameId name = calls_.call(index).outputs[output];
  if (name == kNoName) return kNoTensor;
  const StridedType& type = calls_.TypeOf(name);
  if (calls_.rule(index).alias != Alias::kNone && frame.inputs[0] != kNoTensor) {
    return machine_.View(frame.inputs[0], type.dims, type.strides);
  }
  overwrote_[Index(index)] = MayOverwrite(index, frame);
  if (overwrote_[Index(index)]) return Overwrite(index, frame);
  if (output == 0 && calls_.rule(index).storage != nullptr) return MakePart(index, name);
  return machine_.NewStrided(type, calls_.NameLabel(name));
}

TensorId Forward::MakePart(int32_t index, NameId name) {
  const StridedType& type = calls_.TypeOf(name);
  const TensorType storage = calls_.rule(index).storage(calls_.TypesOf(index));
  const TensorId whole = machine_.New(storage, calls_.NameLabel(name));
  const TensorId part = machine_.View(whole, type.dims, type.strides);
  machine_.Release(whole);
  return part;
}

// Whether the result is of the type of input 0.
bool Forward::IsOverFirst(int32_t index) const {
  const AtenCall& call = calls_.call(index);
  return call.inputs[0] != kNoName &&
         HaveSameType(calls_.TypeOf(call.inputs[0]), calls_.TypeOf(call.outputs[0]));
}

// Whether input 0 is the view in which an instance norm returns what batch_norm made: to code
// around it a norm's result like any other.
bool Forward::ReadsNormsView(int32_t index) const {
  if (index < 2) return false;
  const AtenCall& view = calls_.call(index - 1);
  const AtenCall& norm = calls_.call(index - 2);
  return calls_.rule(index - 1).alias != Alias::kNone &&
         view.outputs[0] == calls_.call(index).inputs[0] && view.inputs[0] == norm.outputs[0] &&
         view.where == norm.where && norm.op == "batch_norm";
}

// Nobody reads input 0 later, nobody saved it, and nobody else holds its storage.
bool Forward::MayOverwrite(int32_t index, const Frame& frame) const {
  const AtenCall& call = calls_.call(index);
  const InPlace in_place = calls_.rule(index).in_place;
  if (in_place == InPlace::kAlways) return true;
  if (in_place == InPlace::kIfNamed) return call.written_in_place == true && IsOverFirst(index);
  if (call.writes_over_first && in_place != InPlace::kNever) return IsOverFirst(index);
  if (in_place_ == InPlaceUse::kNever || in_place == InPlace::kNever) return false;
  if (in_place_ == InPlaceUse::kKnown && call.written_in_place != true) return false;
  if (!in_place_plan_.empty() && !in_place_plan_[Index(index)]) return false;
  if (call.written_in_place == false) return false;
  if (!IsOverFirst(index)) return false;
  const NameId name = call.inputs[0];
  // Modules do over what a linear layer of three dimensions returns, a view, if they are told to.
  const bool is_view = machine_.tensor(frame.inputs[0]).is_view && !ReadsNormsView(index);
  if (is_view && call.written_in_place != true) return false;
  const auto& last = call.last_reads;
  return std::find(last.begin(), last.end(), name) != last.end() &&
         machine_.tensor(frame.inputs[0]).references == 1 &&
         machine_.StorageReferences(frame.inputs[0]) == 1;
}

bool Forward::WroteOverView(int32_t index, const Frame& frame) const {
  return overwrote_[Index(index)] && machine_.tensor(frame.inputs[0]).is_view;
}

TensorId Forward::Overwrite(int32_t index, Frame& frame) {
  const Tensor& input = machine_.tensor(frame.inputs[0]);
  const std::vector<Edge> next = NextEdges(index, frame);
  const bool tracked = next[0].node != kNoGradNode;
  const OpRule& rule = calls_.rule(index);
  const bool is_read = rule.in_place == InPlace::kClone ? tracked
                                                        : rule.in_place == InPlace::kIfNamed &&
                                                              SavedSlots(rule, next).Has(In(0));
  if (is_read && !calls_.call(index).leaves_autograd) {
    frame.clone =
        machine_.New({input.dtype, input.dims}, calls_.NameLabel(calls_.call(index).inputs[0]));
  }
  return machine_.Detach(frame.inputs[0]);
}

void Forward::Record(int32_t index, const Frame& frame) {
  std::vector<Edge> next = NextEdges(index, frame);
  const bool wanted = std::any_of(next.begin(), next.end(),
                                  [](const Edge& edge) { return edge.node != kNoGradNode; });
  const auto output = std::find_if(frame.outputs.begin(), frame.outputs.end(), [&](TensorId id) {
    return id != kNoTensor && HasGradients(machine_.tensor(id).dtype);
  });
  if (!wanted || output == frame.outputs.end()) return;
  std::vector<Saved> kept = Save(index, next, frame);
  GradNode made = {.call = index,
                   .outputs = static_cast<int32_t>(frame.outputs.size()),
                   .next = std::move(next),
                   .saved = {},
                   .over_view = WroteOverView(index, frame)};
  if (calls_.rule(index).keeps_in_node) KeepInNode(kept, made);
  const GradNodeId node = Pack(index, std::move(made), kept);
  for (size_t i = 0; i < frame.outputs.size(); ++i) {
    const TensorId result = frame.outputs[i];
    if (result == kNoTensor || !HasGradients(machine_.tensor(result).dtype)) continue;
    machine_.SetGradFn(result, {node, static_cast<int32_t>(i)});
  }
}

// No hook of a checkpoint sees it.
void Forward::KeepInNode(std::vector<Saved>& kept, GradNode& node) {
  for (const auto& [tensor, slot] : kept) {
    if (machine_.kind(tensor) == Kind::kTemporary) machine_.SetKind(tensor, Kind::kActivation);
    node.kept.push_back(tensor);
  }
  kept.clear();
}

// A node with what it saves, which under a checkpoint it leaves.
GradNodeId Forward::Pack(int32_t index, GradNode node, const std::vector<Saved>& kept) {
  if (is_inside_ && !kept.empty()) {
    Activation& activation = activations_.back();
    for (const auto& [tensor, slot] : kept) machine_.Release(tensor);
    for (const auto& [name, tensor] : activation.arguments) {
      machine_.Retain(tensor);
      node.arguments.push_back(tensor);
    }
    node.dicts = activation.dicts;
    node.activation = static_cast<int32_t>(activations_.size() - 1);
    activation.saved += kept.size();
    activation.last_saving = index;
    activation.saves_inputs_alone =
        !calls_.rule(index).saves_behind && calls_.call(index).function == FunctionPart::kNone &&
        std::ranges::all_of(kept, [](const Saved& saved) { return kInputs.Has(saved.slot); });
    return activation.nodes[index] = machine_.NewNode(std::move(node));
  }
  if (recomputed_ != nullptr) GiveBack(index, kept);
  for (const auto& [tensor, slot] : kept) {
    if (machine_.kind(tensor) == Kind::kTemporary) machine_.SetKind(tensor, Kind::kActivation);
    node.saved.push_back(recomputed_ == nullptr ? tensor : TakeDetached(tensor));
  }
  const GradNodeId made = machine_.NewNode(std::move(node));
  for (size_t i = 0; i < kept.size(); ++i) {
    const Holder holder = {.type = Holder::Type::kSaved, .id = index, .slot = kept[i].slot};
    machine_.NoteHolder(made, holder, machine_.node(made).saved[i]);
  }
  return made;
}

// What a second run saves: its hook returns x.detach(), which keeps what a parameter has by then.
TensorId Forward::TakeDetached(TensorId tensor) {
  const TensorId detached = machine_.Detach(tensor);
  machine_.Release(tensor);
  return detached;
}

// Under torch.no_grad() what is written over has the history that it had.
void Forward::KeepHistory(int32_t index, const Frame& frame) {
  if (!overwrote_[Index(index)]) return;
  const Edge history = machine_.tensor(frame.inputs[0]).grad_fn;
  if (history.node != kNoGradNode) machine_.SetGradFn(frame.outputs[0], history);
}

std::vector<Edge> Forward::NextEdges(int32_t index, const Frame& frame) const {
  std::vector<Edge> next(frame.inputs.size());
  for (size_t i = 0; i < frame.inputs.size(); ++i) {
    const Gradient& gradient = GradientOf(calls_.rule(index), static_cast<int>(i));
    if (frame.inputs[i] == kNoTensor || gradient.form == Gradient::Form::kNone) continue;
    next[i] = machine_.tensor(frame.inputs[i]).grad_fn;
  }
  return next;
}

// What the gradients that are asked for read.
Slots Forward::SavedSlots(const OpRule& rule, const std::vector<Edge>& next) const {
  Slots wanted;
  for (size_t i = 0; i < next.size() && i < kMaxInputSlots; ++i) {
    if (next[i].node != kNoGradNode) wanted = wanted | In(static_cast<int>(i));
  }
  const bool reads_input = rule.reads_input != nullptr && wanted.Has(In(0)) &&
                           calls_.settings().framework.*rule.reads_input;
  return reads_input ? SavedForBackward(rule, wanted) | In(0) : SavedForBackward(rule, wanted);
}

std::vector<Forward::Saved> Forward::Save(int32_t index, const std::vector<Edge>& next,
                                          const Frame& frame) {
  const OpRule& rule = calls_.rule(index);
  const Slots slots = SavedSlots(rule, next);
  const auto keeps = [&](Slots slot) { return rule.keeps_everything || slots.Has(slot); };
  std::vector<Saved> saved;
  const auto keep = [&](TensorId tensor, Slots slot) {
    machine_.Retain(tensor);
    saved.push_back({tensor, slot});
  };
  for (size_t i = 0; i < frame.inputs.size(); ++i) {
    const Slots slot = i < kMaxInputSlots ? In(static_cast<int>(i)) : Slots{};
    const bool is_kept = rule.keeps_everything || (!slot.empty() && keeps(slot));
    if (frame.inputs[i] == kNoTensor || !is_kept) continue;
    keep(i == 0 && frame.clone != kNoTensor ? frame.clone : frame.inputs[i], slot);
  }
  for (size_t i = 0; i < frame.outputs.size() && i < kMaxOutputSlots; ++i) {
    if (frame.outputs[i] == kNoTensor || !keeps(Out(static_cast<int>(i)))) continue;
    saved.push_back({machine_.Detach(frame.outputs[i]), Out(static_cast<int>(i))});
  }
  for (size_t i = 0; i < frame.aux.size(); ++i) {
    const Slots slot = Aux(static_cast<int>(i));
    if (frame.aux[i] != kNoTensor && keeps(slot)) keep(frame.aux[i], slot);
  }
  return saved;
}

void Forward::ExitAutocast() {
  for (const NameId name : calls_.program().cached_casts) Unbind(name);
}

}  // namespace onnxfit
