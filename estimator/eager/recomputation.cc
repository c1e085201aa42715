// torch.utils.checkpoint: parts of a forward pass that run again when backward needs what they
// saved.  Source: pytorch v2.11.0, torch/utils/checkpoint.py.  use_reentrant=False
// (_checkpoint_without_reentrant_generator): saved tensors are replaced by holders; the first that
// is unpacked runs the function again under enable_grad, whose own saved tensors, detached, fill
// the holders; it stops with an exception once all are filled.  use_reentrant=True
// (CheckpointFunction): the function runs under no_grad; backward runs it again with detached
// arguments, then torch.autograd.backward() of what that returns.
#include <algorithm>
#include <set>
#include <utility>

#include "estimator/eager/forward.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// Whether the module at `path`, or the one around it, may be what the model returns as its input
// embedding: no model returns what is in a list.
bool EmbedsInput(std::string_view path) {
  std::vector<std::string_view> names;
  for (size_t begin = 0; begin < path.size(); begin += names.back().size() + 1) {
    names.push_back(path.substr(begin, path.find('.', begin) - begin));
  }
  if (std::ranges::any_of(names, IsNumbered)) return false;
  const size_t around = names.size() < 2 ? 0 : names.size() - 2;
  return std::any_of(names.begin() + static_cast<std::ptrdiff_t>(around), names.end(),
                     IsInputEmbedding);
}

}  // namespace

void Forward::Checkpoint(std::vector<CallSpan> spans) {
  spans_ = std::move(spans);
  span_at_.clear();
  if (spans_.empty()) return;
  span_at_.resize(calls_.program().calls.size(), -1);
  FindCasts();
  for (size_t i = 0; i < spans_.size(); ++i) {
    span_at_[Index(spans_[i].first)] = static_cast<int32_t>(i);
  }
  values_ = ValuesAcross(calls_.program(), spans_);
  FindStores();
}

// Of calls that make the last value of an item of a dict; behind all of them, and all spans,
// whoever made the dict has no use for it.
void Forward::FindStores() {
  stores_.clear();
  last_store_ = spans_.back().last;
  const Program& program = calls_.program();
  for (size_t item = 0; item < program.stored.size(); ++item) {
    int32_t last = -1;
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.stored[item].values) {
        if (std::ranges::find(program.calls[i].outputs, name) != program.calls[i].outputs.end())
          last = static_cast<int32_t>(i);
      }
    }
    if (last >= 0) stores_.emplace(last, static_cast<int32_t>(item));
    last_store_ = std::max(last_store_, last);
  }
}

void Forward::MakeDicts() {
  dicts_.clear();
  for (size_t item = 0; item < calls_.program().stored.size(); ++item) {
    dicts_.push_back(machine_.NewNode({.call = GradNode::kDict, .next = {}, .saved = {}}));
    machine_.RetainNode(dicts_.back());
  }
}

void Forward::StoreMadeBy(int32_t index) {
  const auto made = stores_.find(index);
  if (made == stores_.end() || dicts_.empty()) return;
  const GradNodeId dict = dicts_[Index(made->second)];
  if (dict == kNoGradNode) return;
  std::vector<TensorId> tensors;
  for (const NameId name : calls_.program().stored[Index(made->second)].values) {
    if (names_[Index(name)] != kNoTensor) tensors.push_back(names_[Index(name)]);
  }
  machine_.Store(dict, tensors);
}

// What those that read a dict find there.
void Forward::BindStored(const Activation& activation) {
  dicts_.assign(calls_.program().stored.size(), kNoGradNode);
  const std::vector<int32_t>& items = values_[Index(activation.span)].items;
  for (size_t i = 0; i < items.size(); ++i) {
    dicts_[Index(items[i])] = activation.dicts[i];
    const std::vector<TensorId>& kept = machine_.node(activation.dicts[i]).kept;
    const std::vector<NameId>& names = calls_.program().stored[Index(items[i])].values;
    for (size_t j = 0; j < kept.size() && j < names.size(); ++j) {
      machine_.Retain(kept[j]);
      names_[Index(names[j])] = kept[j];
    }
  }
}

void Forward::LeaveDicts() {
  for (const GradNodeId dict : dicts_) machine_.ReleaseNode(dict);
  dicts_.clear();
}

void Forward::AskAsLibraries() {
  AskOfTokens();
  const Program& program = calls_.program();
  is_asked_.clear();
  for (const AtenCall& call : program.calls) {
    const bool is_known = !call.frames.empty() && call.frames.back() != kNoStatement;
    const SourceStatement line =
        is_known ? program.source.At(call.frames.back()) : SourceStatement();
    is_asked_.push_back(AsksUnderCheckpoints(line.text, line.file));
  }
}

void Forward::FindCasts() {
  const std::vector<AtenCall>& calls = calls_.program().calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool is_cast = calls[i].outputs.size() == 1 && calls[i].outputs[0] != kNoName &&
                         is_cached_[Index(calls[i].outputs[0])];
    if (is_cast) cast_by_.emplace(calls[i].outputs[0], static_cast<int32_t>(i));
  }
}

void Forward::EnterSpan(int32_t span) {
  Activation& activation = activations_.emplace_back();
  activation.span = span;
  for (const NameId name : values_[Index(span)].given) {
    const TensorId tensor = names_[Index(name)];
    if (tensor == kNoTensor) continue;
    machine_.Retain(tensor);
    activation.arguments.emplace_back(name, tensor);
  }
  for (const int32_t item : values_[Index(span)].items) {
    activation.dicts.push_back(dicts_[Index(item)]);
  }
  is_inside_ = true;
}

// From now on the nodes hold the arguments.
void Forward::LeaveSpan() {
  is_inside_ = false;
  for (const auto& [name, tensor] : activations_.back().arguments) machine_.Release(tensor);
}

void Forward::Unpack(GradNodeId node) {
  const GradNode& waiting = machine_.node(node);
  if (waiting.activation < 0 || !waiting.saved.empty()) return;
  Recompute(activations_[Index(waiting.activation)]);
}

// Names of its own, in which the module's tensors and what the span was given are bound, and what
// modules' attributes hold, which it binds anew; returns those before.
std::vector<TensorId> Forward::SwapNames(const Activation& activation) {
  std::vector<TensorId> outer(names_.size(), kNoTensor);
  std::swap(outer, names_);
  SwapAttributes(activation.span, outer);
  for (const NameId name : calls_.program().placement) {
    const TensorId tensor = outer[Index(name)];
    if (tensor == kNoTensor) continue;
    machine_.Retain(tensor);
    names_[Index(name)] = tensor;
  }
  for (const auto& [name, tensor] : activation.arguments) {
    machine_.Retain(tensor);
    names_[Index(name)] = tensor;
  }
  if (!stores_.empty()) BindStored(activation);
  return outer;
}

void Forward::SwapAttributes(int32_t span, std::vector<TensorId>& outer) {
  for (const NameId name : values_[Index(span)].attributes) {
    std::swap(outer[Index(name)], names_[Index(name)]);
  }
}

// What autocast had cast before is cast again: its cache was left with the forward pass.
void Forward::CastAgain(int32_t index) {
  for (const NameId name : calls_.call(index).inputs) {
    if (name == kNoName || !is_cached_[Index(name)] || names_[Index(name)] != kNoTensor) continue;
    Run(cast_by_.at(name), /*grad=*/true);
  }
}

// Inputs are saved before a kernel runs: the last of all that are saved ends the second run there.
void Forward::GiveInputsBack(int32_t index) {
  machine_.EnterOperator(calls_.OperatorLabel(index));
  const Frame frame = Enter(index);
  const std::vector<Saved> kept = Save(index, NextEdges(index, frame), frame);
  GiveBack(index, kept);
  for (const auto& [tensor, slot] : kept) machine_.Release(tensor);
}

void Forward::Recompute(Activation& activation) {
  std::vector<TensorId> outer = SwapNames(activation);
  recomputed_ = &activation;
  is_in_backward_ = true;
  given_back_ = 0;
  const CallSpan& span = spans_[Index(activation.span)];
  for (int32_t i = span.first; i <= span.last && given_back_ < activation.saved; ++i) {
    CastAgain(i);
    RunAgain(i, activation);
  }
  is_in_backward_ = false;
  recomputed_ = nullptr;
  ReturnNames(activation, std::move(outer));
}

// The exception that ends it leaves modules without their hooks.
void Forward::RunAgain(int32_t index, const Activation& activation) {
  if (hooks_.before) hooks_.before(index, /*again=*/true);
  const bool stops_before = index == activation.last_saving && activation.saves_inputs_alone;
  stops_before ? GiveInputsBack(index) : Run(index, /*grad=*/true);
  if (hooks_.after && given_back_ < activation.saved) hooks_.after(index, /*again=*/true);
}

// The frames are gone: what they were lent is not theirs to let go of, all else is.  The names are
// those of before from now on.
void Forward::ReturnNames(const Activation& activation, std::vector<TensorId> outer) {
  const auto give_back = [&](NameId name) {
    const TensorId lent = std::exchange(names_[Index(name)], kNoTensor);
    if (lent != kNoTensor) machine_.Release(lent);
  };
  for (const NameId name : calls_.program().placement) give_back(name);
  for (const auto& [name, tensor] : activation.arguments) give_back(name);
  SwapAttributes(activation.span, outer);
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] != kNoTensor) Unbind(static_cast<NameId>(i));
  }
  names_ = std::move(outer);
  dicts_.clear();
}

// Whether the node is that of the first run still: nobody may have needed it.
bool Forward::Waits(GradNodeId node, int32_t index) const {
  return machine_.node(node).call == index && machine_.node(node).activation >= 0;
}

// Detached, so that what is computed again is not held by what it leads to.
void Forward::GiveBack(int32_t index, const std::vector<Saved>& kept) {
  given_back_ += kept.size();
  const auto waiting = recomputed_->nodes.find(index);
  if (waiting == recomputed_->nodes.end() || !Waits(waiting->second, index)) return;
  std::vector<TensorId> saved;
  for (const auto& [tensor, slot] : kept) saved.push_back(machine_.Detach(tensor));
  machine_.SetSaved(waiting->second, std::move(saved));
}

// --- use_reentrant=True ---------------------------------------------------------------------

void Forward::CheckpointReentrant(std::vector<CallSpan> spans) {
  Checkpoint(std::move(spans));
  is_reentrant_ = !spans_.empty();
  FindInputEmbedding();
}

// The first call of what the model is given and a frozen tensor of its own, where the model returns
// that module as its input embedding, be it a table or a convolution of patches.
void Forward::FindInputEmbedding() {
  const Program& program = calls_.program();
  if (program.adapters.empty()) return;
  std::set<NameId> own(program.frozen.begin(), program.frozen.end());
  const auto is_own = [&](NameId name) { return name != kNoName && own.contains(name); };
  for (size_t i = 0; i < program.calls.size() && input_embedding_ < 0; ++i) {
    const AtenCall& call = calls_.call(static_cast<int32_t>(i));
    if (!call.inputs.empty() && std::ranges::all_of(call.inputs, is_own)) {
      own.insert(call.outputs.begin(), call.outputs.end());
    } else if (std::ranges::any_of(call.inputs, is_own)) {
      if (EmbedsInput(program.modules.PathOf(call.module)))
        input_embedding_ = static_cast<int32_t>(i);
      return;
    }
  }
}

// What a forward asks gradients for (requires_grad_), and a library where checkpoints are around
// its layers, so that those have an argument with a gradient: a leaf, which a node holds.
void Forward::AskForGradients(int32_t index) {
  const AtenCall& call = calls_.call(index);
  const bool is_likely =
      !spans_.empty() && ((!is_asked_.empty() && is_asked_[Index(index)]) || EndsEmbedding(index));
  if (!call.asks_for_gradients && !is_likely) return;
  if (call.outputs.empty() || call.outputs[0] == kNoName) return;
  const TensorId result = names_[Index(call.outputs[0])];
  if (result == kNoTensor || machine_.tensor(result).grad_fn.node != kNoGradNode) return;
  const TensorId held = machine_.Detach(result);
  const GradNodeId leaf =
      machine_.NewNode({.call = GradNode::kArgument, .next = {}, .saved = {}, .arguments = {held}});
  machine_.SetGradFn(result, {leaf, 0});
}

// gradient_checkpointing_enable() of a model whose main input is "input_ids" does what a reentrant
// checkpoint needs, whichever it is (transformers v5.17, modeling_utils.py).
void Forward::AskOfTokens() {
  if (is_reentrant_ || spans_.empty()) return;
  FindInputEmbedding();
  if (input_embedding_ >= 0 && calls_.call(input_embedding_).op != "embedding")
    input_embedding_ = -1;
}

// model.enable_input_require_grads(), without which a frozen embedding leaves a reentrant
// checkpoint without gradients: whether the module that embeds the model's input makes call `index`
// last; it may scale what it has read.  A table's is one wherever it is read, and models in the
// model have theirs: a decoder beside an encoder.
bool Forward::EndsEmbedding(int32_t index) const {
  if (input_embedding_ < 0) return false;
  const std::vector<AtenCall>& calls = calls_.program().calls;
  const AtenCall& first = calls[Index(input_embedding_)];
  const auto is_own = [&](int32_t i) {
    return i >= 0 && Index(i) < calls.size() && calls[Index(i)].module == first.module;
  };
  const auto reads = [&](int32_t i) {
    if (i == input_embedding_) return true;
    const AtenCall& call = calls[Index(i)];
    return call.op == "embedding" &&
           (call.inputs[0] == first.inputs[0] ||
            IsInputEmbedding(ChildOf(calls_.program().modules.PathOf(call.module))));
  };
  if (first.module == kOutside || !is_own(index)) return reads(index);
  if (is_own(index + 1)) return false;
  int32_t i = index;
  while (is_own(i) && !reads(i)) --i;
  return is_own(i);
}

void Forward::RunWithoutGradients(int32_t span) {
  EnterSpan(span);
  is_without_gradients_ = true;
  for (int32_t i = spans_[Index(span)].first; i <= spans_[Index(span)].last; ++i) {
    Run(i, /*grad=*/false);
  }
  is_without_gradients_ = false;
  StandFor(activations_.back());
  LeaveSpan();
}

// One node for all that the span has made; none where nothing that it was given asks for gradients.
void Forward::StandFor(const Activation& activation) {
  GradNode node = {.call = GradNode::kRerun, .next = {}, .saved = {}};
  node.activation = static_cast<int32_t>(activations_.size() - 1);
  node.dicts = activation.dicts;
  bool wanted = false;
  for (const auto& [name, tensor] : activation.arguments) {
    node.next.push_back(machine_.tensor(tensor).grad_fn);
    wanted = wanted || node.next.back().node != kNoGradNode;
  }
  if (!wanted) return;
  // Keywords, which ask for no gradient, are held by the function until the node dies.
  const bool by_position = values_[Index(activation.span)].by_position;
  for (const auto& [name, tensor] : activation.arguments) {
    machine_.Retain(tensor);
    const bool asks = machine_.tensor(tensor).grad_fn.node != kNoGradNode;
    (asks || by_position ? node.saved : node.arguments).push_back(tensor);
  }
  const std::vector<NameId>& results = values_[Index(activation.span)].returned;
  node.outputs = static_cast<int32_t>(results.size());
  const GradNodeId made = machine_.NewNode(std::move(node));
  machine_.RetainNode(made);
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorId result = names_[Index(results[i])];
    if (result == kNoTensor || !HasGradients(machine_.tensor(result).dtype)) continue;
    machine_.SetGradFn(result, {made, static_cast<int32_t>(i)});
  }
  machine_.ReleaseNode(made);  // with its arguments, where it has made nothing that lives
}

// In place of arguments that ask for gradients, leaves of their storage, one reference each.
std::vector<GradNodeId> Forward::BindDetached(const Activation& activation) {
  std::vector<GradNodeId> leaves(activation.arguments.size(), kNoGradNode);
  for (size_t i = 0; i < activation.arguments.size(); ++i) {
    const auto& [name, tensor] = activation.arguments[i];
    const TensorId detached = machine_.Detach(tensor);
    if (machine_.tensor(tensor).grad_fn.node != kNoGradNode) {
      leaves[i] = machine_.NewNode({.call = GradNode::kArgument,
                                    .parameter = static_cast<int32_t>(i),
                                    .next = {},
                                    .saved = {},
                                    .arguments = {machine_.Detach(tensor)}});
      machine_.RetainNode(leaves[i]);
      machine_.SetGradFn(detached, {leaves[i], 0});
    }
    machine_.Release(std::exchange(names_[Index(name)], detached));
  }
  return leaves;
}

// A leaf that an attribute's history leads to lives on, and with it the argument and its gradient
// (AccumulateGrad::variable, torch/csrc/autograd/functions/accumulate_grad.h).
void Forward::LeaveLeaves(const std::vector<GradNodeId>& leaves,
                          const std::vector<TensorId>& gradients) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i] == kNoGradNode) continue;
    const bool lives_on = machine_.node(leaves[i]).references > 1;
    if (lives_on && gradients[i] != kNoTensor) machine_.HoldBy(leaves[i], gradients[i]);
    machine_.ReleaseNode(leaves[i]);
  }
}

// Whether call `index` casts an argument that asks for gradients, which torch.autocast does once:
// it is a leaf now, whose casts its cache keeps as those of parameters: from fp32 alone
// (cached_cast, aten/src/ATen/autocast_mode.cpp).
bool Forward::ReuseCast(int32_t index) {
  const AtenCall& call = calls_.call(index);
  if (!call.is_autocasts || is_cached_[Index(call.outputs[0])]) return false;
  const TensorId argument = names_[Index(call.inputs[0])];
  if (calls_.TypeOf(call.inputs[0]).dtype != DType::kFloat32) return false;
  const GradNodeId leaf = machine_.tensor(argument).grad_fn.node;
  if (leaf == kNoGradNode || machine_.node(leaf).call != GradNode::kArgument) return false;
  const auto known = argument_casts_.find(call.inputs[0]);
  if (known == argument_casts_.end()) {
    Run(index, /*grad=*/true);
    const TensorId cast = names_[Index(call.outputs[0])];
    machine_.Retain(cast);
    argument_casts_.emplace(call.inputs[0], cast);
    return true;
  }
  machine_.Retain(known->second);
  Bind(call.outputs[0], known->second);
  for (const NameId name : call.dies) Unbind(name);
  return true;
}

// Zeros for results that no gradient has come for: a torch.autograd.Function materializes them
// (PyNode::apply, torch/csrc/autograd/python_function.cpp).
std::vector<TensorId> Forward::Materialize(const std::vector<NameId>& results,
                                           const std::vector<TensorId>& incoming) {
  std::vector<TensorId> zeros(results.size(), kNoTensor);
  for (size_t i = 0; i < results.size(); ++i) {
    if (incoming[i] != kNoTensor) continue;
    const StridedType& type = calls_.TypeOf(results[i]);
    zeros[i] = machine_.New({type.dtype, type.dims}, calls_.GradientLabel(results[i]));
  }
  return zeros;
}

std::vector<TensorId> Forward::Rerun(GradNodeId node, const std::vector<TensorId>& incoming,
                                     ParameterGradients& gradients, const BackwardHooks& hooks) {
  const Activation& activation = activations_[Index(machine_.node(node).activation)];
  const CallSpan& span = spans_[Index(activation.span)];
  const std::vector<NameId>& results = values_[Index(activation.span)].returned;
  const std::vector<TensorId> zeros = Materialize(results, incoming);
  std::vector<TensorId> outer = SwapNames(activation);
  const std::vector<GradNodeId> leaves = BindDetached(activation);
  is_in_backward_ = true;
  for (int32_t i = span.first; i <= span.last; ++i) {
    CastAgain(i);
    if (!ReuseCast(i)) Run(i, /*grad=*/true);
  }
  is_in_backward_ = false;
  for (const auto& [name, cast] : std::exchange(argument_casts_, {})) machine_.Release(cast);
  std::vector<std::pair<Edge, TensorId>> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorId result = names_[Index(results[i])];
    if (result == kNoTensor) continue;
    const Edge edge = machine_.tensor(result).grad_fn;
    const TensorId gradient = zeros[i] == kNoTensor ? incoming[i] : zeros[i];
    if (edge.node != kNoGradNode) outputs.emplace_back(edge, gradient);
  }
  for (const NameId cast : calls_.program().cached_casts) Unbind(cast);
  std::vector<TensorId> made =
      RunNestedBackward(calls_, outputs, activation.arguments.size(), gradients, hooks);
  ReturnNames(activation, std::move(outer));
  LeaveLeaves(leaves, made);
  for (const TensorId tensor : zeros) {
    if (tensor != kNoTensor) machine_.Release(tensor);
  }
  return made;
}

}  // namespace onnxfit
