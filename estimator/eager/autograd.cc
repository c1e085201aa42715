#include "estimator/eager/autograd.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// A node that waits for its gradients.
struct Pending {
  int32_t missing = 0;              // edges that have not delivered yet
  std::vector<TensorId> gradients;  // by output, kNoTensor until one comes
};

// CompareNodeTaskTime: those of the same time, parameters, leave the heap as it has them.
struct IsEarlier {
  using Ready = std::pair<int64_t, GradNodeId>;
  bool operator()(const Ready& a, const Ready& b) const { return a.first < b.first; }
};

class Engine {
 public:
  Engine(CallTable& calls, ParameterGradients& gradients, const BackwardHooks& hooks,
         size_t arguments = 0)
      : calls_(calls),
        machine_(calls.machine()),
        hooks_(hooks),
        parameter_gradients_(gradients),
        argument_gradients_(arguments, kNoTensor),
        pending_(machine_.node_limit()) {}

  void Run(const BackwardRoots& roots) {
    keeps_graph_ = roots.keeps_graph;
    std::vector<TensorId> first;  // locals of backward(): they live until all is done
    for (size_t i = 0; i < roots.tensors.size(); ++i) first.push_back(FirstGradient(roots, i));
    for (const TensorId root : roots.tensors) CountDependencies(machine_.tensor(root).grad_fn.node);
    for (size_t i = 0; i < first.size(); ++i) {
      machine_.Retain(first[i]);
      Deliver(machine_.tensor(roots.tensors[i]).grad_fn, first[i]);
    }
    RunReady();
    if (hooks_.end) hooks_.end();
    for (const TensorId gradient : first) machine_.Release(gradient);
  }

  std::vector<TensorId> RunFrom(const std::vector<std::pair<Edge, TensorId>>& outputs,
                                bool keeps_graph) {
    keeps_graph_ = keeps_graph;
    for (const auto& [edge, gradient] : outputs) CountDependencies(edge.node);
    for (const auto& [edge, gradient] : outputs) {
      machine_.Retain(gradient);
      Deliver(edge, gradient);
    }
    RunReady();
    return std::move(argument_gradients_);
  }

 private:
  // What somebody gave, or ones; one reference.
  TensorId FirstGradient(const BackwardRoots& roots, size_t i) {
    const TensorId given = roots.gradients[i];
    if (given != kNoTensor) {
      machine_.Retain(given);
      return given;
    }
    const Tensor& root = machine_.tensor(roots.tensors[i]);
    return machine_.New({root.dtype, root.dims}, machine_.AddLabel("loss.grad"));
  }

  void RunReady() {
    while (!ready_.empty()) {
      const GradNodeId node = ready_.top().second;
      ready_.pop();
      Evaluate(node);
      machine_.ReleaseNode(node);
    }
  }

  // Each node that the root reaches, and how many gradients it will get, the root one more.
  void CountDependencies(GradNodeId root) {
    if (++pending_[Index(root)].missing > 1) return;
    std::vector<GradNodeId> stack = {root};
    while (!stack.empty()) {
      const GradNodeId id = stack.back();
      stack.pop_back();
      machine_.RetainNode(id);
      Pending& pending = pending_[Index(id)];
      pending.gradients.assign(static_cast<size_t>(machine_.node(id).outputs), kNoTensor);
      for (const Edge& edge : machine_.node(id).next) {
        if (edge.node == kNoGradNode) continue;
        if (++pending_[Index(edge.node)].missing == 1) stack.push_back(edge.node);
      }
    }
  }

  // Later calls first; parameters before all others.
  int64_t Priority(GradNodeId node) const {
    const int32_t call = machine_.node(node).call;
    const bool accumulates = call == GradNode::kLeaf || call == GradNode::kArgument;
    return accumulates ? std::numeric_limits<int64_t>::max() : machine_.node(node).sequence;
  }

  // One edge has delivered: `gradient` (taken over) or nothing.
  void Deliver(Edge edge, TensorId gradient) {
    Pending& pending = pending_[Index(edge.node)];
    if (gradient != kNoTensor) Add(edge, gradient);
    if (--pending.missing == 0) ready_.emplace(Priority(edge.node), edge.node);
  }

  // InputBuffer::add: into the first gradient in place where nobody else can see it, and it is no
  // DTensor (isTensorSubclassLike).
  void Add(Edge edge, TensorId gradient) {
    TensorId& held = pending_[Index(edge.node)].gradients[Index(edge.output)];
    if (held == kNoTensor) {
      held = gradient;
      return;
    }
    if (machine_.tensor(held).indices != kNoTensor ||
        machine_.tensor(gradient).indices != kNoTensor)
      return AddSparse(held, gradient, FanOutLabel());
    const Tensor& first = machine_.tensor(held);
    const bool in_place = !IsDistributed(edge.node) && !first.is_view && IsDense(first) &&
                          first.references == 1 && machine_.StorageReferences(held) == 1;
    if (!in_place) {
      const StridedType* const both[] = {&first, &machine_.tensor(gradient)};
      const StridedType type = {first, ElementwiseStrides(first.dims, both)};
      const TensorId sum = machine_.NewStrided(type, FanOutLabel());
      machine_.Release(std::exchange(held, sum));
    }
    machine_.Release(gradient);
  }

  bool IsDistributed(GradNodeId node) const {
    const int32_t call = machine_.node(node).call;
    return call >= 0 && calls_.program().calls[Index(call)].is_distributed;
  }

  LabelId FanOutLabel() {
    if (fan_out_label_ < 0) fan_out_label_ = machine_.AddLabel("sum of gradients");
    return fan_out_label_;
  }

  void Evaluate(GradNodeId id) {
    std::vector<TensorId> incoming = std::exchange(pending_[Index(id)].gradients, {});
    if (machine_.node(id).call == GradNode::kLeaf) {
      if (incoming[0] != kNoTensor) Accumulate(machine_.node(id).parameter, incoming[0]);
      return;
    }
    if (machine_.node(id).call == GradNode::kArgument) {
      if (incoming[0] != kNoTensor) AccumulateArgument(id, incoming[0]);
      return;
    }
    const bool any = std::any_of(incoming.begin(), incoming.end(),
                                 [](TensorId gradient) { return gradient != kNoTensor; });
    std::vector<TensorId> gradients(machine_.node(id).next.size(), kNoTensor);
    for (const int32_t module : machine_.node(id).returned_by) hooks_.enter(module);
    if (any) gradients = Apply(id, incoming);
    for (const TensorId gradient : incoming) {
      if (gradient != kNoTensor) machine_.Release(gradient);
    }
    if (!keeps_graph_) machine_.ReleaseSaved(id);
    const std::vector<Edge> next = machine_.node(id).next;
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i].node != kNoGradNode) Deliver(next[i], gradients[i]);
    }
  }

  std::vector<TensorId> Apply(GradNodeId id, std::vector<TensorId>& incoming) {
    const int32_t call = machine_.node(id).call;
    if (call >= 0) {
      machine_.EnterOperator(calls_.OperatorLabel(call));
      hooks_.unpack(id);
      if (calls_.call(call).function == FunctionPart::kNode) return hooks_.function(id, incoming);
    }
    if (call == GradNode::kArrival) return PassOn(id, incoming);
    if (call == GradNode::kReturn) hooks_.enter(machine_.node(id).parameter);
    if (call == GradNode::kSink || call == GradNode::kReturn) return PassAsTheyAre(incoming);
    return call == GradNode::kRerun ? hooks_.rerun(id, incoming) : Gradients(calls_, id, incoming);
  }

  // A function of Python's: what did not come is zeros.
  std::vector<TensorId> PassOn(GradNodeId id, std::vector<TensorId>& incoming) {
    const GradNode& node = machine_.node(id);
    for (size_t i = 0; i < incoming.size(); ++i) {
      if (incoming[i] == kNoTensor) incoming[i] = machine_.New(node.passes[i], FanOutLabel());
      machine_.Retain(incoming[i]);
    }
    hooks_.leave(node.parameter);
    return incoming;
  }

  // Indices and values are joined (add_out_sparse_cuda of native/sparse/cuda/
  // SparseCUDATensorMath.cu); with a dense gradient the sum is dense, and new.
  void AddSparse(TensorId& held, TensorId gradient, LabelId label) {
    const Tensor& first = machine_.tensor(held);
    const Tensor& second = machine_.tensor(gradient);
    const bool is_dense = first.indices == kNoTensor || second.indices == kNoTensor;
    TensorType type = first.indices == kNoTensor ? first : second;
    if (!is_dense) type.dims[0] += first.dims[0];
    const TensorId indices =
        is_dense ? kNoTensor : machine_.New({DType::kInt64, {type.dims[0]}}, label);
    const TensorId sum = machine_.New(type, label);
    if (!is_dense) {
      machine_.SetIndices(sum, indices);
      machine_.Release(indices);
    }
    machine_.Release(std::exchange(held, sum));
    machine_.Release(gradient);
  }

  // One that asks for no zeros (set_materialize_grads(False)).
  std::vector<TensorId> PassAsTheyAre(const std::vector<TensorId>& incoming) {
    for (const TensorId gradient : incoming) {
      if (gradient != kNoTensor) machine_.Retain(gradient);
    }
    return incoming;
  }

  // AccumulateGrad: the gradient is taken as it is where nobody else holds it and it lies
  // in memory as the parameter does; otherwise copied; a second one is added in place, and still
  // there for hooks.
  void Accumulate(int32_t parameter, TensorId gradient) {
    const auto index = static_cast<size_t>(parameter);
    const NameId name = calls_.program().parameters[index];
    if (parameter_gradients_.Has(index)) {
      if (machine_.tensor(gradient).indices != kNoTensor) return AccumulateRows(index, gradient);
      parameter_gradients_.Accumulated(index);
      machine_.Release(gradient);
      return;
    }
    const TensorType type = machine_.tensor(gradient);
    gradient = Own(gradient, {type, StridesAs(type.dims, calls_.TypeOf(name).strides)},
                   calls_.GradientLabel(name));
    machine_.SetKind(gradient, Kind::kGradient);
    machine_.NoteHolder(parameter, {.type = Holder::Type::kGradient, .id = name}, gradient);
    parameter_gradients_.Set(index, gradient);
    parameter_gradients_.Accumulated(index);
  }

  void AccumulateRows(size_t parameter, TensorId gradient) {
    TensorId sum = parameter_gradients_.at(parameter);
    machine_.Retain(sum);
    AddSparse(sum, gradient, calls_.GradientLabel(calls_.program().parameters[parameter]));
    machine_.SetKind(sum, Kind::kGradient);
    parameter_gradients_.Drop(parameter, machine_);
    parameter_gradients_.Set(parameter, sum);
    parameter_gradients_.Accumulated(parameter);
  }

  // `gradient` where nobody else holds it and it lies as `variable`, what it is of, else a copy
  // that does (utils::clone_obey_contract, torch/csrc/autograd/utils/grad_layout_contract.h).
  TensorId Own(TensorId gradient, const StridedType& variable, LabelId label) {
    const Tensor& tensor = machine_.tensor(gradient);
    const Dims strides = IsDense(variable) ? variable.strides : ContiguousStrides(variable.dims);
    if (tensor.references == 1 && LiesAs(strides, tensor)) return gradient;
    const StridedType type = {{tensor.dtype, tensor.dims}, strides};
    const TensorId copy = machine_.NewStrided(type, label);
    machine_.Release(gradient);
    return copy;
  }

  // Strides of one element say nothing.
  static bool LiesAs(const Dims& strides, const StridedType& tensor) {
    for (size_t i = 0; i < strides.size(); ++i) {
      if (tensor.dims[i] != 1 && tensor.strides[i] != strides[i]) return false;
    }
    return true;
  }

  // The same into what a checkpoint was given.  What only asks for gradients has no number: its own
  // lives as long as the leaf.
  void AccumulateArgument(GradNodeId leaf, TensorId gradient) {
    const int32_t argument = machine_.node(leaf).parameter;
    const TensorId variable = machine_.node(leaf).arguments[0];
    gradient = Own(gradient, StridedType(machine_.tensor(variable)), FanOutLabel());
    if (argument >= 0) {
      argument_gradients_[Index(argument)] = gradient;
      return;
    }
    machine_.HoldBy(leaf, gradient);
    machine_.Release(gradient);
  }

  CallTable& calls_;
  Machine& machine_;
  const BackwardHooks& hooks_;
  ParameterGradients& parameter_gradients_;
  std::vector<TensorId> argument_gradients_;
  std::vector<Pending> pending_;  // by node
  std::priority_queue<IsEarlier::Ready, std::vector<IsEarlier::Ready>, IsEarlier> ready_;
  LabelId fan_out_label_ = -1;
  bool keeps_graph_ = false;
};

}  // namespace

void ParameterGradients::Clear(Machine& machine) {
  for (size_t i = 0; i < tensors_.size(); ++i) Drop(i, machine);
}

void ParameterGradients::Drop(size_t parameter, Machine& machine) {
  if (!Has(parameter)) return;
  machine.NoteRelease(Holder::Type::kGradient, static_cast<int32_t>(parameter));
  machine.Release(std::exchange(tensors_[parameter], kNoTensor));
}

void RunBackward(CallTable& calls, TensorId loss, ParameterGradients& gradients,
                 const BackwardHooks& hooks) {
  Engine(calls, gradients, hooks).Run({.tensors = {loss}, .gradients = {kNoTensor}});
}

void RunBackward(CallTable& calls, const BackwardRoots& roots, ParameterGradients& gradients,
                 const BackwardHooks& hooks) {
  Engine(calls, gradients, hooks).Run(roots);
}

std::vector<TensorId> RunNestedBackward(CallTable& calls,
                                        const std::vector<std::pair<Edge, TensorId>>& outputs,
                                        size_t arguments, ParameterGradients& gradients,
                                        const BackwardHooks& hooks, bool keeps_graph) {
  return Engine(calls, gradients, hooks, arguments).RunFrom(outputs, keeps_graph);
}

}  // namespace onnxfit
