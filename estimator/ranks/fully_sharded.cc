#include "estimator/ranks/fully_sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/strides.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/ranks/shards.h"

namespace onnxfit {
namespace {

constexpr int32_t kWholeModel = 0;

// FSDPCommContext's; unsharding.cc has the other one that anything is allocated on.
constexpr StreamId kReduceStream = 2;  // reduce_scatter_stream

std::vector<ShardedModule> ModulesOf(const CallTable& calls) {
  return ShardedModules(calls.program(), ShardedGlobs(calls.settings().ranks));
}

}  // namespace

void CheckFullySharded(const Program& program, const TrainingSettings& settings) {
  const auto refuse = [](const char* what) {
    throw Error({.where = "--strategy", .text = fmt::format("expected no {} with fsdp", what)});
  };
  if (settings.optimizer_in_backward) refuse("--optimizer-in-backward");
  if (settings.ema) refuse("--ema");
  if (AreReentrant(program, settings)) {
    if (!settings.checkpoint.empty()) refuse("--checkpoint-reentrant");
    throw Error({.where = "--strategy",
                 .text = "expected no checkpoints with use_reentrant=True with fsdp, found the "
                         "file's own",
                 .hint = "--checkpoint auto"});
  }
  if (!program.quantized.empty()) refuse("--quantize");
  if (settings.lora.dora) refuse("--dora");
  if (settings.ranks.fsdp_offload && settings.precision == Precision::kAmpFp16) {
    throw Error({.where = "--fsdp-offload",
                 .text = "expected no -p amp-fp16, whose scaler reads gradients on the device"});
  }
}

FullySharded::FullySharded(CallTable& calls, Forward& forward, ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      forward_(forward),
      gradients_(gradients),
      ranks_(calls.settings().ranks),
      modules_(ModulesOf(calls)),
      groups_(modules_.size()),
      world_(SharingRanks(ranks_)),
      accumulated_(gradients.size(), kNoTensor),
      unreduced_(gradients.size(), kNoTensor),
      label_(machine_.AddLabel("FSDP")) {
  const std::vector<NameId>& parameters = calls.program().parameters;
  for (size_t i = 0; i < parameters.size(); ++i) parameter_of_[parameters[i]] = i;
  const std::vector<NameId>& shared = calls.program().shared;
  shared_.insert(shared.begin(), shared.end());
  for (size_t i = 1; i < modules_.size(); ++i) {
    for (const CallSpan& span : modules_[i].runs) {
      runs_.push_back({.module = static_cast<int32_t>(i), .span = span});
    }
  }
  std::ranges::sort(runs_, {}, [](const Run& run) { return run.span.first; });
  FindValues();
}

void FullySharded::FindValues() {
  std::vector<CallSpan> spans;
  for (const Run& run : runs_) spans.push_back(run.span);
  std::vector<SpanValues> values = ValuesAcross(calls_.program(), spans);
  for (size_t i = 0; i < runs_.size(); ++i) runs_[i].values = std::move(values[i]);
}

TensorId FullySharded::New(const TensorType& type, Kind kind) {
  return machine_.New(type, label_, kind);
}

// --- What a rank has ------------------------------------------------------------------------

const TensorType& FullySharded::TypeOf(NameId name) const {
  return calls_.program().values[Index(name)].type;
}

// In fp32, where modules cast it.
TensorType FullySharded::StoredType(NameId name) const { return InputType(TypeOf(name)); }

TensorType FullySharded::InputType(TensorType type) const {
  if (ranks_.fsdp_policy && IsFloat(type.dtype)) type.dtype = DType::kFloat32;
  return type;
}

std::vector<TensorType> FullySharded::TypesOf(const std::vector<NameId>& names) const {
  std::vector<TensorType> types;
  for (const NameId name : names) types.push_back(TypeOf(name));
  return types;
}

std::vector<TensorType> FullySharded::StoredTypes(const std::vector<NameId>& names) const {
  std::vector<TensorType> types;
  for (const NameId name : names) types.push_back(StoredType(name));
  return types;
}

TensorType FullySharded::ShardOf(NameId name) const { return FirstRows(StoredType(name), world_); }

std::vector<TensorType> FullySharded::ShardTypes() const {
  std::vector<TensorType> types;
  for (const NameId name : calls_.program().parameters) types.push_back(ShardOf(name));
  return types;
}

NameId FullySharded::FirstNameOf(NameId name) const {
  const auto& ties = calls_.program().ties;
  const auto tie = std::ranges::find(ties, name, &Tie::name);
  return tie == ties.end() ? name : tie->first;
}

void FullySharded::Construct() {
  forward_.BeginPlacement();
  for (const ShardedModule& module : modules_) {
    for (const NameId name : module.parameters) ++wholes_[FirstNameOf(name)].modules;
  }
  for (size_t i = 1; i < modules_.size(); ++i) Place(static_cast<int32_t>(i));
  Place(kWholeModel);
  PlaceShared();
}

// Parts of layers that ranks share are on no device until all modules are sharded.
void FullySharded::PlaceShared() {
  for (const NameId name : calls_.program().placement) {
    if (IsShared(name)) PlaceShard(name);
  }
}

void FullySharded::PlaceShard(NameId name) {
  const TensorId shard = machine_.New(ShardOf(name), calls_.NameLabel(name), Kind::kParameter);
  if (ranks_.fsdp_offload) machine_.Release(shard);
}

// _move_states_to_device, then FSDPParam for each, which may take its shard to the host.
void FullySharded::Place(int32_t module) {
  const auto make = [&](NameId name, const TensorType& type, Kind kind) {
    return machine_.New(type, calls_.NameLabel(name), kind);
  };
  for (const NameId name : ModuleOf(module).parameters) {
    if (IsShared(name)) continue;
    Whole& whole = wholes_.at(FirstNameOf(name));
    if (whole.tensor == kNoTensor) whole.tensor = make(name, StoredType(name), Kind::kParameter);
  }
  for (const NameId name : ModuleOf(module).buffers) {
    forward_.BindOfModel(name, make(name, TypeOf(name), Kind::kBuffer));
  }
  for (const NameId name : ModuleOf(module).parameters) {
    if (!IsShared(name)) PlaceShard(name);
  }
  for (const NameId name : ModuleOf(module).parameters) {
    if (!IsShared(name)) LeaveWhole(name);
  }
}

// A module that comes later may have it, too.
void FullySharded::LeaveWhole(NameId name) {
  Whole& whole = wholes_.at(FirstNameOf(name));
  if (--whole.modules == 0) machine_.Release(whole.tensor);
}

// --- Forward --------------------------------------------------------------------------------

// Its policy casts what it is given; its caller's frame holds that until it returns.
void FullySharded::BeforeModel() {
  for (const NameId name : calls_.program().inputs) {
    const TensorType& type = TypeOf(name);
    const TensorId given = forward_.Lookup(name);
    if (given == kNoTensor || type == InputType(type)) continue;
    const TensorId cast = New(type, Kind::kInput);
    machine_.Retain(cast);
    casts_.push_back(cast);
    forward_.Bind(name, cast);
  }
  Enter(kWholeModel);
}

// The whole model stays unsharded unless somebody asks: its backward comes first.
void FullySharded::AfterModel() {
  if (ranks_.fsdp_reshard > 1) ReshardAfterForward(kWholeModel);
  Leave(kWholeModel);
  for (const TensorId cast : std::exchange(casts_, {})) machine_.Release(cast);
  HookReturned(calls_.program().outputs, kWholeModel);
  if (last_gathered_ != kNoTensor) machine_.Release(std::exchange(last_gathered_, kNoTensor));
}

void FullySharded::Before(const Run& run) {
  Enter(run.module);
  Receive(run);
}

void FullySharded::After(const Run& run) {
  GiveBack();
  if (!ranks_.fsdp_keep && ranks_.fsdp_reshard != 1) ReshardAfterForward(run.module);
  Leave(run.module);
  HookReturned(run.values.returned, run.module);
}

void FullySharded::Enter(int32_t module) {
  if (ModuleOf(module).parameters.empty()) return;
  GroupOf(module).state = State::kForward;
  Unshard(module);
  CopyOut(module);
}

// _record_post_forward
void FullySharded::Leave(int32_t module) {
  if (ModuleOf(module).parameters.empty()) return;
  GroupOf(module).state = State::kIdle;
  GroupOf(module).uses.push_back(order_.size());
  order_.push_back(module);
}

// RegisterPostBackwardFunction: the module sees what it is given through one node.
void FullySharded::Receive(const Run& run) {
  GradNode node = {.call = GradNode::kArrival, .parameter = run.module, .next = {}, .saved = {}};
  for (const NameId name : run.values.given) {
    const TensorId tensor = forward_.Lookup(name);
    if (tensor == kNoTensor || machine_.tensor(tensor).grad_fn.node == kNoGradNode) continue;
    machine_.Retain(tensor);
    arguments_.emplace_back(name, tensor);
    node.next.push_back(machine_.tensor(tensor).grad_fn);
    node.passes.push_back({machine_.tensor(tensor).dtype, machine_.tensor(tensor).dims});
  }
  if (arguments_.empty() || ModuleOf(run.module).parameters.empty()) return;
  node.outputs = static_cast<int32_t>(arguments_.size());
  const GradNodeId arrival = machine_.NewNode(std::move(node));
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const auto [name, tensor] = arguments_[i];
    const TensorId seen =
        machine_.View(tensor, machine_.tensor(tensor).dims, machine_.tensor(tensor).strides);
    machine_.SetGradFn(seen, {arrival, static_cast<int32_t>(i)});
    forward_.Bind(name, seen);
  }
}

// The caller goes on with its own; what nobody reads any more is gone.
void FullySharded::GiveBack() {
  for (const auto& [name, tensor] : std::exchange(arguments_, {})) {
    if (forward_.Lookup(name) == kNoTensor) {
      machine_.Release(tensor);
    } else {
      forward_.Bind(name, tensor);
    }
  }
}

void FullySharded::HookReturned(const std::vector<NameId>& names, int32_t module) {
  for (const NameId name : names) {
    const TensorId tensor = forward_.Lookup(name);
    if (tensor != kNoTensor) machine_.HookReturned(tensor, module);
  }
}

// --- Backward -------------------------------------------------------------------------------

// Shards of gradients lie apart from what has not been scattered yet.
void FullySharded::BeginBackward() {
  if (has_unreduced_) return;
  for (size_t i = 0; i < accumulated_.size(); ++i) {
    accumulated_[i] = gradients_.at(i);
    gradients_.Set(i, kNoTensor);
  }
}

void FullySharded::BeforeBackward(int32_t module) {
  Group& group = GroupOf(module);
  if (ModuleOf(module).parameters.empty() || group.state == State::kBeforeBackward) return;
  group.state = State::kBeforeBackward;
  Unshard(module);
  CopyOut(module);
  Prefetch(module);
}

// What ran before it in forward is next.
void FullySharded::Prefetch(int32_t module) {
  std::vector<size_t>& uses = GroupOf(module).uses;
  if (uses.empty()) return;
  const size_t use = uses.back();
  uses.pop_back();
  if (use > 0) Unshard(order_[use - 1]);
}

std::vector<size_t> FullySharded::WithGradients(int32_t module) const {
  std::vector<size_t> parameters;
  for (const NameId name : ModuleOf(module).parameters) {
    const auto found = parameter_of_.find(name);
    if (found == parameter_of_.end()) continue;
    const size_t i = found->second;
    if (gradients_.Has(i) || unreduced_[i] != kNoTensor) parameters.push_back(i);
  }
  return parameters;
}

void FullySharded::AfterBackward(int32_t module) {
  if (ModuleOf(module).parameters.empty()) return;
  GroupOf(module).state = State::kAfterBackward;
  const std::vector<size_t> parameters = WithGradients(module);
  for (const size_t i : parameters) {
    if (unreduced_[i] != kNoTensor) gradients_.Drop(i, machine_);  // it was added
  }
  Reshard(module);
  if (!reduces_) {
    KeepUnreduced(parameters);
  } else if (!parameters.empty()) {
    Reduce(parameters);
  }
}

// to_accumulated_grad_if_needed: in the type in which they are reduced.
void FullySharded::KeepUnreduced(const std::vector<size_t>& parameters) {
  for (const size_t i : parameters) {
    const NameId name = calls_.program().parameters[i];
    if (!gradients_.Has(i) || TypeOf(name).dtype == StoredType(name).dtype) continue;
    unreduced_[i] = machine_.New(StoredType(name), label_, Kind::kGradient);
    gradients_.Drop(i, machine_);
  }
}

void FullySharded::DropUnsharded(size_t parameter) {
  TensorId& kept = unreduced_[parameter];
  if (kept != kNoTensor) machine_.Release(std::exchange(kept, kNoTensor));
  gradients_.Drop(parameter, machine_);
}

// foreach_reduce: the last gradient is a local of it.
void FullySharded::Reduce(const std::vector<size_t>& parameters) {
  std::vector<NameId> names;
  for (const size_t i : parameters) names.push_back(calls_.program().parameters[i]);
  if (last_reduced_ != kNoTensor) machine_.Release(last_reduced_);
  const std::vector<TensorType> types = StoredTypes(names);
  TensorType type = GatheredTogether(types, world_);
  last_reduced_ = New(type, Kind::kTemporary);
  PassNumbers(NumbersToJoin(types, world_));
  for (size_t i = 0; i + 1 < parameters.size(); ++i) DropUnsharded(parameters[i]);
  type.dims[0] /= world_;
  machine_.UseStream(kReduceStream);
  const TensorId reduced = New(type, Kind::kGradient);
  machine_.UseStream(kMainStream);
  DropUnsharded(parameters.back());
  SetShards(parameters, reduced);
}

// Each is a part of the whole, unless the host has it; what is there already is added to.
void FullySharded::SetShards(const std::vector<size_t>& parameters, TensorId reduced) {
  for (const size_t i : parameters) {
    if (accumulated_[i] != kNoTensor || ranks_.fsdp_offload) continue;
    const Dims dims = ShardOf(calls_.program().parameters[i]).dims;
    accumulated_[i] = machine_.View(reduced, dims, ContiguousStrides(dims));
  }
  machine_.Release(reduced);
}

// _root_post_backward_final_callback
void FullySharded::EndBackward() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.state != State::kAfterBackward) AfterBackward(static_cast<int32_t>(i));
    group.state = State::kIdle;
    group.uses.clear();
    const TensorId unread = std::exchange(group.gathered, kNoTensor);
    if (unread != kNoTensor) machine_.Release(unread);
  }
  order_.clear();
  if (last_reduced_ != kNoTensor) machine_.Release(std::exchange(last_reduced_, kNoTensor));
  has_unreduced_ = !reduces_;
  for (size_t i = 0; i < accumulated_.size() && reduces_; ++i) {
    gradients_.Set(i, std::exchange(accumulated_[i], kNoTensor));
  }
}

}  // namespace onnxfit
