#include "estimator/ranks/zero_stage3.h"

#include <algorithm>
#include <set>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr int32_t kModelItself = 0;

constexpr int64_t kGroupElements = 1'000'000'000;  // sub_group_size, by default

// Of what modules are given, what their calls read.
std::vector<SpanValues> ValuesOfRuns(const Program& program, const HookedModules& modules) {
  std::vector<CallSpan> spans;
  for (const HookedRun& run : modules.runs) spans.push_back(run.span);
  std::vector<SpanValues> values = ValuesAcross(program, spans);
  for (size_t i = 0; i < spans.size(); ++i) {
    std::set<NameId> read;
    for (int32_t call = spans[i].first; call <= spans[i].last; ++call) {
      const std::vector<NameId>& inputs = program.calls[Index(call)].inputs;
      read.insert(inputs.begin(), inputs.end());
    }
    std::erase_if(values[i].given, [&](NameId name) { return !read.contains(name); });
  }
  return values;
}

}  // namespace

ZeroStage3::ZeroStage3(CallTable& calls, Forward& forward, ParameterGradients& gradients,
                       size_t model_end)
    : calls_(calls),
      machine_(calls.machine()),
      forward_(forward),
      gradients_(gradients),
      gathered_(calls, forward),
      scattered_(calls, gradients),
      modules_(FindHookedModules(calls.program(), model_end, gathered_.names())),
      values_(ValuesOfRuns(calls.program(), modules_)),
      coordinator_(gathered_, modules_.parameters, calls.settings().ranks),
      begins_(calls.program().calls.size()),
      ends_(calls.program().calls.size()),
      arguments_(modules_.runs.size()),
      awaited_(modules_.parameters.size()),
      label_(machine_.AddLabel("ZeRO")) {
  for (size_t i = 0; i < modules_.runs.size(); ++i) {
    const CallSpan& span = modules_.runs[i].span;
    begins_[Index(span.first)].push_back(i);
    ends_[Index(span.last)].insert(ends_[Index(span.last)].begin(), i);
  }
  SetGroups();
  FindLeaves();
}

void ZeroStage3::FindLeaves() {
  of_leaf_.resize(modules_.parameters.size());
  is_in_leaf_.resize(gradients_.size());
  const std::vector<NameId>& trained = calls_.program().parameters;
  for (size_t module = 0; module < of_leaf_.size(); ++module) {
    if (!modules_.are_leaves[module]) continue;
    for (const size_t i : modules_.parameters[module]) {
      const auto at = std::ranges::find(trained, gathered_.names()[i]) - trained.begin();
      if (at == std::ssize(trained)) continue;
      of_leaf_[module].push_back(static_cast<size_t>(at));
      is_in_leaf_[static_cast<size_t>(at)] = true;
    }
  }
}

// _create_fp16_sub_groups
void ZeroStage3::SetGroups() {
  int64_t elements = kGroupElements;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (elements >= kGroupElements) {
      groups_.emplace_back();
      elements = 0;
    }
    groups_.back().push_back(i);
    elements += scattered_.PartOf(i);
  }
}

std::vector<TensorType> ZeroStage3::ShardTypes() const {
  std::vector<TensorType> types(gradients_.size(), TensorType{DType::kFloat32, {0}});
  if (calls_.settings().ranks.zero_offload) return types;
  for (const std::vector<size_t>& group : groups_) {
    types[group[0]] = {DType::kFloat32, {scattered_.Parts(group)}};
  }
  return types;
}

// Parts in 32 bits are copies of what they were cast to, if they were; a gradient is made for a
// moment.
void ZeroStage3::Construct() {
  const bool is_on_host = calls_.settings().ranks.zero_offload;
  gathered_.Partition();
  if (!is_on_host) machine_.New({DType::kBool, {1}}, label_);  // inf_or_nan_tracker
  gathered_.Defragment();
  if (!is_on_host) ConstructShards();
  scattered_.Construct();
  for (const NameId name : calls_.program().parameters) {
    const auto& names = gathered_.names();
    const auto at = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    gathered_.GatherApart({at});
    gathered_.Free(at);
  }
  Hook();
}

// _create_fp32_partitions, initialize_optimizer_states
void ZeroStage3::ConstructShards() {
  const std::vector<TensorType> types = ShardTypes();
  TensorType largest = {DType::kFloat32, {0}};
  for (const std::vector<size_t>& group : groups_) {
    const TensorType& type = types[group[0]];
    largest.dims[0] = std::max(largest.dims[0], type.dims[0]);
    const bool is_cast = calls_.settings().precision != Precision::kFp32;
    const TensorId cast = is_cast ? machine_.New(type, label_) : kNoTensor;
    machine_.New(type, label_, Kind::kParameter);
    if (is_cast) machine_.Release(cast);
  }
  machine_.Release(machine_.New(largest, label_));
}

void ZeroStage3::Hook() {
  forward_.HookCalls({.before = [this](int32_t call, bool again) { Before(call, again); },
                      .after = [this](int32_t call, bool again) { After(call, again); }});
}

void ZeroStage3::BeginForward() {
  coordinator_.BeginPass();
  coordinator_.Fetch(kModelItself, /*is_forward=*/true);
}

void ZeroStage3::EndForward() {
  coordinator_.Release(kModelItself, /*is_forward=*/true);
  Return(calls_.program().outputs, kModelItself);
}

void ZeroStage3::Before(int32_t call, bool again) {
  for (const size_t run : begins_[Index(call)]) {
    coordinator_.Fetch(modules_.runs[run].module, /*is_forward=*/true);
    if (!again) Receive(run);
  }
}

void ZeroStage3::After(int32_t call, bool again) {
  for (const size_t run : ends_[Index(call)]) {
    const int32_t module = modules_.runs[run].module;
    coordinator_.Release(module, /*is_forward=*/true);
    if (again) continue;
    GiveBack(run);
    Return(values_[run].returned, module);
  }
}

// PostBackwardFunctionModule: what a module is given goes through a node each.  Of those without
// parameters it would let go of nothing.
void ZeroStage3::Receive(size_t run) {
  const int32_t module = modules_.runs[run].module;
  if (modules_.parameters[Index(module)].empty()) return;
  awaited_[Index(module)] = 0;
  for (const NameId name : values_[run].given) {
    const TensorId given = forward_.Lookup(name);
    if (given == kNoTensor || machine_.tensor(given).grad_fn.node == kNoGradNode) continue;
    GradNode node = {.call = GradNode::kArrival, .parameter = module, .next = {}, .saved = {}};
    node.next.push_back(machine_.tensor(given).grad_fn);
    node.passes.push_back(machine_.tensor(given));
    const TensorId seen = machine_.Detach(given);
    machine_.SetGradFn(seen, {machine_.NewNode(std::move(node)), 0});
    machine_.Retain(given);
    arguments_[run].emplace_back(name, given);
    forward_.Bind(name, seen);
    ++awaited_[Index(module)];
  }
}

// The caller goes on with its own; what nobody reads any more is gone.
void ZeroStage3::GiveBack(size_t run) {
  for (const auto& [name, tensor] : std::exchange(arguments_[run], {})) {
    if (forward_.Lookup(name) == kNoTensor) {
      machine_.Release(tensor);
    } else {
      forward_.Bind(name, tensor);
    }
  }
}

// PreBackwardFunctionForModule: the same of what it returns.
void ZeroStage3::Return(const std::vector<NameId>& names, int32_t module) {
  for (const NameId name : names) {
    const TensorId made = forward_.Lookup(name);
    if (made == kNoTensor || machine_.tensor(made).grad_fn.node == kNoGradNode) continue;
    GradNode node = {.call = GradNode::kReturn, .parameter = module, .next = {}, .saved = {}};
    node.next.push_back(machine_.tensor(made).grad_fn);
    const TensorId seen = machine_.Detach(made);
    machine_.SetGradFn(seen, {machine_.NewNode(std::move(node)), 0});
    forward_.Bind(name, seen);
  }
}

// Gradients of a whole wait for all of them (register_full_backward_hook).
void ZeroStage3::TakeGradient(size_t parameter) {
  if (!is_in_leaf_[parameter]) scattered_.Take(parameter);
}

void ZeroStage3::TakeGradientsOf(int32_t module) {
  for (const size_t i : of_leaf_[Index(module)]) {
    if (gradients_.Has(i)) scattered_.Take(i);
  }
}

void ZeroStage3::AfterBackward(int32_t module) {
  if (--awaited_[Index(module)] != 0) return;
  TakeGradientsOf(module);
  coordinator_.Release(module, /*is_forward=*/false);
}

void ZeroStage3::EndBackward() {
  scattered_.EndBackward();
  coordinator_.ReleaseLeftovers();
}

void ZeroStage3::BeginStep() {
  coordinator_.ReleaseAll();
  if (calls_.settings().ranks.zero_offload) return;
  for (const std::vector<size_t>& group : groups_) scattered_.PassNorms(group);
  scaled_norm_ = machine_.New({DType::kFloat64, {}}, label_);
  norm_before_ = std::exchange(norm_, machine_.New({DType::kFloat64, {}}, label_));
}

void ZeroStage3::EndStep() {
  scattered_.DropNorms();
  coordinator_.GatherPersistent();
  for (TensorId* norm : {&scaled_norm_, &norm_before_}) {
    if (*norm != kNoTensor) machine_.Release(std::exchange(*norm, kNoTensor));
  }
}

}  // namespace onnxfit
