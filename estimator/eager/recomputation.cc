// torch.utils.checkpoint(use_reentrant=False): parts of a forward pass that run again when backward
// needs what they saved.  Source: pytorch v2.11.0, torch/utils/checkpoint.py
// (_checkpoint_without_reentrant_generator): saved tensors are replaced by holders; the first that
// is unpacked runs the function again under enable_grad, whose own saved tensors, detached, fill
// the holders; it stops with an exception once all are filled.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "estimator/eager/forward.h"

namespace onnxfit {

void Forward::Checkpoint(std::vector<CallSpan> spans) {
  spans_ = std::move(spans);
  span_at_.clear();
  if (spans_.empty()) return;
  span_at_.resize(calls_.program().calls.size(), -1);
  for (size_t i = 0; i < spans_.size(); ++i) {
    span_at_[Index(spans_[i].first)] = static_cast<int32_t>(i);
    read_from_outside_.push_back(ReadFromOutside(spans_[i]));
  }
}

// Parameters and buffers are the module's own: it does not take them as arguments.
std::vector<NameId> Forward::ReadFromOutside(const CallSpan& span) const {
  const Program& program = calls_.program();
  std::unordered_set<NameId> known(program.placement.begin(), program.placement.end());
  std::vector<NameId> names;
  for (int32_t i = span.first; i <= span.last; ++i) {
    const AtenCall& call = calls_.call(i);
    for (const NameId name : call.inputs) {
      if (name != kNoName && known.insert(name).second) names.push_back(name);
    }
    for (const NameId name : call.outputs) known.insert(name);
  }
  return names;
}

void Forward::EnterSpan(int32_t span) {
  Activation& activation = activations_.emplace_back();
  activation.span = span;
  for (const NameId name : read_from_outside_[Index(span)]) {
    const TensorId tensor = names_[Index(name)];
    if (tensor == kNoTensor) continue;
    machine_.Retain(tensor);
    activation.arguments.emplace_back(name, tensor);
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

// In names of its own.
void Forward::Recompute(Activation& activation) {
  const Program& program = calls_.program();
  std::vector<TensorId> outer(names_.size(), kNoTensor);
  std::swap(outer, names_);
  const auto bind = [&](NameId name, TensorId tensor) {
    machine_.Retain(tensor);
    names_[Index(name)] = tensor;
  };
  for (const NameId name : program.placement) {
    if (outer[Index(name)] != kNoTensor) bind(name, outer[Index(name)]);
  }
  for (const auto& [name, tensor] : activation.arguments) bind(name, tensor);
  recomputed_ = &activation;
  given_back_ = 0;
  const CallSpan& span = spans_[Index(activation.span)];
  for (int32_t i = span.first; i <= span.last && given_back_ < activation.saved; ++i) {
    Run(i, /*grad=*/true);
  }
  recomputed_ = nullptr;
  ReleaseNames(activation);
  names_ = std::move(outer);
}

// The frames are gone: what they were lent is not theirs to let go of, all else is.
void Forward::ReleaseNames(const Activation& activation) {
  const auto give_back = [&](NameId name) {
    const TensorId lent = std::exchange(names_[Index(name)], kNoTensor);
    if (lent != kNoTensor) machine_.Release(lent);
  };
  for (const NameId name : calls_.program().placement) give_back(name);
  for (const auto& [name, tensor] : activation.arguments) give_back(name);
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] != kNoTensor) Unbind(static_cast<NameId>(i));
  }
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

}  // namespace onnxfit
