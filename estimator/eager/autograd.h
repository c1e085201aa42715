// PyTorch's backward engine: which node runs when, what is added up where, what becomes a
// parameter's gradient.  Source: pytorch v2.6.0, torch/csrc/autograd/{engine.cpp,
// input_buffer.cpp,functions/accumulate_grad.h}.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "estimator/eager/call_table.h"

namespace onnxfit {

// The gradients of all parameters, by their index: `p.grad`, one reference each.
class ParameterGradients {
 public:
  explicit ParameterGradients(size_t parameters) : tensors_(parameters, kNoTensor) {}

  TensorId at(size_t parameter) const { return tensors_[parameter]; }
  bool Has(size_t parameter) const { return tensors_[parameter] != kNoTensor; }
  void Set(size_t parameter, TensorId tensor) { tensors_[parameter] = tensor; }
  size_t size() const { return tensors_.size(); }

  // zero_grad(set_to_none=True), of all or of one.
  void Clear(Machine& machine);
  void Drop(size_t parameter, Machine& machine);

  // p.register_post_accumulate_grad_hook, of every parameter.
  void HookAccumulation(std::function<void(size_t)> hook) { hook_ = std::move(hook); }
  void Accumulated(size_t parameter) const {
    if (hook_) hook_(parameter);
  }

 private:
  std::vector<TensorId> tensors_;
  std::function<void(size_t)> hook_;
};

// What others do in backward: checkpoints (recomputation.cc), sharded modules (fully_sharded.h).
struct BackwardHooks {
  // Before the formulas of a node read what it saved.
  std::function<void(GradNodeId)> unpack;
  // In place of formulas: the gradients of the arguments of a node that runs its span again.
  std::function<std::vector<TensorId>(GradNodeId, const std::vector<TensorId>& incoming)> rerun;
  // The same of a torch.autograd.Function of the model's own.
  std::function<std::vector<TensorId>(GradNodeId, const std::vector<TensorId>& incoming)> function =
      {};
  // Before the first node runs of those that made what a module returned; when the gradients of all
  // that it was given are there.
  std::function<void(int32_t module)> enter = {};
  std::function<void(int32_t module)> leave = {};
  // When the last node has run (queue_callback).
  std::function<void()> end = {};
};

// loss.backward().  Nodes run in the reverse order of their calls; a parameter's
// accumulation as soon as all of its gradients have come.  O(nodes × log nodes).
// REQUIRES: `loss` has a history.
void RunBackward(CallTable& calls, TensorId loss, ParameterGradients& gradients,
                 const BackwardHooks& hooks);

// torch.autograd.backward(tensors, gradients, retain_graph): kNoTensor for a gradient of ones.
struct BackwardRoots {
  std::vector<TensorId> tensors;
  std::vector<TensorId> gradients;
  bool keeps_graph = false;
};

// The same of several.  REQUIRES: each has a history.
void RunBackward(CallTable& calls, const BackwardRoots& roots, ParameterGradients& gradients,
                 const BackwardHooks& hooks);

// torch.autograd.backward(outputs, gradients, keeps_graph) inside of another backward, which holds
// the gradients that come in: those of the arguments of the checkpoint, by their number, kNoTensor
// where none came, one reference each.
std::vector<TensorId> RunNestedBackward(CallTable& calls,
                                        const std::vector<std::pair<Edge, TensorId>>& outputs,
                                        size_t arguments, ParameterGradients& gradients,
                                        const BackwardHooks& hooks, bool keeps_graph = false);

// The formulas of one node (backward.cc): the gradients of the inputs of `node`, one reference
// each, kNoTensor where none is wanted, allocated in PyTorch's order, then validated as the engine
// does: what was broadcast is summed up, what has another dtype is cast.  `incoming` are the
// gradients of its outputs, kNoTensor where none arrived, or once a formula has let go of it.
// REQUIRES: `node` is no leaf.
std::vector<TensorId> Gradients(CallTable& calls, GradNodeId node, std::vector<TensorId>& incoming);

// The same of gradients that a node's inputs got otherwise, one reference each: validated.
std::vector<TensorId> Validated(CallTable& calls, GradNodeId node, std::vector<TensorId> gradients);

}  // namespace onnxfit
