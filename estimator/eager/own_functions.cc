// A torch.autograd.Function of the model's own: a node, and a backward whose calls were watched.
// Source: torch/csrc/autograd/python_function.cpp (pytorch v2.11.0).
#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/eager/forward.h"

namespace onnxfit {

// None in most programs.
void Forward::FindFunctions() {
  const std::vector<AtenCall>& calls = calls_.program().calls;
  const auto is_node = [](const AtenCall& call) { return call.function == FunctionPart::kNode; };
  if (std::ranges::none_of(calls, is_node)) return;
  function_around_.assign(calls.size(), -1);
  std::vector<int32_t> open;
  int32_t node = -1;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (is_node(calls[i])) node = static_cast<int32_t>(i);
    if (calls[i].function == FunctionPart::kArrival) open.push_back(node);
    if (!open.empty()) function_around_[i] = open.back();
    if (calls[i].function == FunctionPart::kReturn) open.pop_back();
  }
}

// Whether the call is of the backward of a function that does not run.
bool Forward::IsOfOtherBackward(int32_t index) const {
  return !function_around_.empty() && function_around_[Index(index)] != function_.node;
}

// What is kept in attributes of a context lives as long as the node, whatever has run.
void Forward::RecordFunction(int32_t index) {
  const AtenCall& call = calls_.call(index);
  const auto arguments = ArgumentsOfFunction(call);
  const auto results = ResultsOfFunction(call);
  GradNode node = {
      .call = index, .outputs = static_cast<int32_t>(results.size()), .next = {}, .saved = {}};
  bool is_wanted = false;
  for (const NameId argument : arguments) {
    const TensorId tensor = argument == kNoName ? kNoTensor : Lookup(argument);
    node.next.push_back(tensor == kNoTensor ? Edge() : machine_.tensor(tensor).grad_fn);
    is_wanted = is_wanted || node.next.back().node != kNoGradNode;
  }
  if (!is_wanted) return;
  std::vector<Saved> saved;
  const auto rest = std::span(call.inputs).subspan(arguments.size() + results.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == kNoName) continue;
    const TensorId found = Lookup(rest[i]);
    const TensorId tensor = found == kNoTensor  // of a file that is not whole
                                ? machine_.New({DType::kFloat32, {0}}, calls_.NameLabel(rest[i]))
                                : machine_.Detach(found);
    i < Index(call.ints[2]) ? saved.push_back({tensor, In(0)}) : node.kept.push_back(tensor);
  }
  const GradNodeId made = Pack(index, std::move(node), saved);
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorId result = results[i] == kNoName ? kNoTensor : Lookup(results[i]);
    if (result == kNoTensor || !HasGradients(machine_.tensor(result).dtype)) continue;
    machine_.SetGradFn(result, {made, static_cast<int32_t>(i)});
  }
}

// Names that Python was seen to let go of in the backward that begins at `arrival`, before it
// returns.
std::set<NameId> Forward::DroppedIn(int32_t arrival) const {
  const std::vector<NameKeeper>& keepers = calls_.program().keepers;
  std::set<NameId> dropped;
  for (int32_t i = arrival;
       calls_.call(i).function != FunctionPart::kReturn || IsOfOtherBackward(i); ++i) {
    for (const NameId name : calls_.call(i).dies) {
      const bool is_seen = keepers[Index(name)].by == NameKeeper::By::kObserved;
      if (is_seen) dropped.insert(name);
    }
  }
  return dropped;
}

// Zeros stand for gradients that have not come (PyNode::apply materializes them).
void Forward::BindGradients(int32_t arrival, const std::vector<TensorId>& incoming) {
  const std::vector<NameId>& names = calls_.call(arrival).outputs;
  for (size_t i = 0; i < incoming.size(); ++i) {
    if (names[i] == kNoName) continue;
    if (incoming[i] != kNoTensor) machine_.Retain(incoming[i]);
    Bind(names[i], incoming[i] != kNoTensor
                       ? incoming[i]
                       : machine_.New(calls_.TypeOf(names[i]), calls_.GradientLabel(names[i])));
  }
}

// An attribute of the context that backward drops goes then.
void Forward::BindSaved(int32_t arrival, GradNodeId id) {
  const auto names =
      std::span(calls_.call(arrival).outputs).subspan(Index(machine_.node(id).outputs));
  std::vector<TensorId> tensors = machine_.node(id).saved;
  const size_t saved = tensors.size();
  const std::vector<TensorId>& kept = machine_.node(id).kept;
  tensors.insert(tensors.end(), kept.begin(), kept.end());
  const std::set<NameId> dropped = DroppedIn(arrival);
  size_t next = 0;
  for (const NameId name : names) {
    if (name == kNoName || next == tensors.size()) continue;
    Bind(name, machine_.Detach(tensors[next]));
    if (next >= saved && dropped.contains(name)) machine_.LetGoOfKept(id, tensors[next]);
    ++next;
  }
}

// x.requires_grad_() of what has no history.
void Forward::MakeLeafOf(NameId name) {
  const TensorId tensor = name == kNoName ? kNoTensor : Lookup(name);
  if (tensor == kNoTensor || machine_.tensor(tensor).grad_fn.node != kNoGradNode) return;
  const GradNodeId leaf = machine_.NewNode({.call = GradNode::kArgument,
                                            .parameter = function_.leaves++,
                                            .next = {},
                                            .saved = {},
                                            .arguments = {machine_.Detach(tensor)}});
  machine_.SetGradFn(tensor, {leaf, 0});
}

void Forward::RunNested(const AtenCall& call) {
  const size_t leaves = Index(call.ints[0]);
  const size_t roots = Index(call.ints[1]);
  const std::span<const NameId> names = std::span(call.inputs).subspan(leaves);
  std::vector<std::pair<Edge, TensorId>> outputs;
  std::vector<TensorId> ones;
  for (size_t i = 0; i < roots; ++i) {
    const TensorId root = Lookup(names[i]);
    const NameId given = names[roots + i];
    const bool is_gone = given != kNoName && Lookup(given) == kNoTensor;
    if (root == kNoTensor || is_gone) continue;
    if (given == kNoName) {
      const StridedType& type = machine_.tensor(root);
      ones.push_back(machine_.New({type.dtype, type.dims}, calls_.GradientLabel(names[i])));
    }
    const Edge edge = machine_.tensor(root).grad_fn;
    if (edge.node != kNoGradNode)
      outputs.emplace_back(edge, given == kNoName ? ones.back() : Lookup(given));
  }
  // torch.autograd.grad returns those of parameters, too, and adds them to none.
  ParameterGradients own(calls_.program().parameters.size());
  const bool returns_all = call.ints[4] != 0;
  std::vector<TensorId> made = RunNestedBackward(calls_, outputs, Index(function_.leaves),
                                                 returns_all ? own : *function_.gradients,
                                                 *function_.hooks, call.ints[3] != 0);
  for (size_t i = 0; i < leaves; ++i) {
    const TensorId tensor = Lookup(call.inputs[i]);
    const GradNodeId leaf =
        tensor == kNoTensor ? kNoGradNode : machine_.tensor(tensor).grad_fn.node;
    if (leaf == kNoGradNode) continue;
    const GradNode& node = machine_.node(leaf);
    if (node.parameter < 0) continue;
    const auto number = Index(node.parameter);
    if (node.call == GradNode::kLeaf && returns_all && own.Has(number)) {
      machine_.Retain(own.at(number));
      Bind(call.outputs[i], own.at(number));
    } else if (node.call == GradNode::kArgument && number < made.size() &&
               made[number] != kNoTensor) {
      Bind(call.outputs[i], std::exchange(made[number], kNoTensor));
    }
  }
  own.Clear(machine_);
  for (const std::vector<TensorId>& rest : {ones, made}) {
    for (const TensorId tensor : rest) {
      if (tensor != kNoTensor) machine_.Release(tensor);
    }
  }
}

// Whether the call is no operator, and what it does instead.
bool Forward::RunPart(const AtenCall& call, int32_t index, bool grad) {
  switch (call.function) {
    case FunctionPart::kNone:
    case FunctionPart::kBackward:
      return false;
    case FunctionPart::kNode:
      if (grad) RecordFunction(index);
      return true;
    case FunctionPart::kLeaf:
      MakeLeafOf(call.inputs[0]);
      return true;
    case FunctionPart::kNested:
      RunNested(call);
      return true;
    case FunctionPart::kArrival:  // RunFunction's
    case FunctionPart::kReturn:
      return true;
  }
  return false;
}

// What the backward of `id` returns in call `index`, as far as anybody wants it.
std::vector<TensorId> Forward::TakeReturned(int32_t index, GradNodeId id) {
  const std::vector<NameId>& names = calls_.call(index).inputs;
  std::vector<TensorId> gradients(names.size(), kNoTensor);
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_wanted = machine_.node(id).next[i].node != kNoGradNode;
    if (names[i] == kNoName || !is_wanted || Lookup(names[i]) == kNoTensor) continue;
    gradients[i] = Lookup(names[i]);
    machine_.Retain(gradients[i]);
  }
  return Validated(calls_, id, std::move(gradients));
}

// The frame of a backward is gone.
void Forward::UnbindMade(int32_t first, int32_t last) {
  for (int32_t i = first; i < last; ++i) {
    for (const NameId name : calls_.call(i).outputs) {
      if (name != kNoName) Unbind(name);
    }
  }
}

std::vector<TensorId> Forward::RunFunction(GradNodeId id, const std::vector<TensorId>& incoming,
                                           ParameterGradients& gradients,
                                           const BackwardHooks& hooks) {
  const int32_t node = machine_.node(id).call;
  const RunningFunction outer =
      std::exchange(function_, {.node = node, .gradients = &gradients, .hooks = &hooks});
  const bool was_in_backward = std::exchange(is_in_backward_, true);
  BindGradients(node + 1, incoming);
  BindSaved(node + 1, id);
  int32_t last = node + 2;
  for (; calls_.call(last).function != FunctionPart::kReturn || IsOfOtherBackward(last); ++last)
    Run(last, /*grad=*/true);
  std::vector<TensorId> made = TakeReturned(last, id);
  UnbindMade(node + 1, last);
  is_in_backward_ = was_in_backward;
  function_ = outer;
  return made;
}

}  // namespace onnxfit
