// How FSDP2 puts parameters together and takes them apart again.
#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/operators/strides.h"
#include "estimator/ranks/fully_sharded.h"
#include "estimator/ranks/shards.h"

namespace onnxfit {
namespace {

constexpr StreamId kGatherStream = 1;  // FSDPCommContext's all_gather_copy_in_stream

}  // namespace

// foreach_all_gather.  One rank alone has nothing to gather.
void FullySharded::Unshard(int32_t module) {
  Group& group = GroupOf(module);
  if (group.gathered != kNoTensor || group.sharded == Sharded::kNot) return;
  if (world_ == 1) {
    group.gathered = New({DType::kUint8, {0}}, Kind::kTemporary);
    return;
  }
  machine_.UseStream(kGatherStream);
  const std::vector<TensorId> inputs = GatherInputs(module);
  group.gathered =
      New(GatheredTogether(GatheredTypes(module), GatheringRanks(module)), Kind::kTemporary);
  for (const TensorId input : inputs) machine_.Release(input);
  machine_.UseStream(kMainStream);
}

// Shards as they are gathered; of a smaller mesh what they were made of, in one dimension.
std::vector<TensorType> FullySharded::GatheredTypes(int32_t module) const {
  std::vector<TensorType> types = TypesOf(ModuleOf(module).parameters);
  if (groups_[Index(module)].sharded != Sharded::kAfterForward) return types;
  for (TensorType& type : types) type = Gathered(type, world_);
  return types;
}

// _all_gather_process_group
int64_t FullySharded::GatheringRanks(int32_t module) const {
  const bool is_smaller = groups_[Index(module)].sharded == Sharded::kAfterForward;
  return is_smaller ? ranks_.fsdp_reshard : world_;
}

// _get_param_all_gather_inputs: copies of the host's, each cast by itself; or casts, all in one
// tensor.
std::vector<TensorId> FullySharded::GatherInputs(int32_t module) {
  if (!ranks_.fsdp_offload) {
    if (!ranks_.fsdp_policy) return {};
    const int64_t ranks = GatheringRanks(module);
    const TensorType type = GatheredTogether(GatheredTypes(module), ranks);
    return {New({type.dtype, {type.dims[0] / ranks}}, Kind::kTemporary)};
  }
  if (GroupOf(module).sharded == Sharded::kAfterForward) return {};
  std::vector<TensorId> inputs;
  for (const NameId name : ModuleOf(module).parameters) inputs.push_back(GatherInput(name));
  return inputs;
}

// all_gather_inputs: kNoTensor where it is the shard itself.
TensorId FullySharded::GatherInput(NameId name) {
  TensorId input = kNoTensor;
  if (ranks_.fsdp_offload) input = New(ShardOf(name), Kind::kTemporary);
  if (TypeOf(name).dtype == StoredType(name).dtype) return input;
  const TensorId cast = New(FirstRows(TypeOf(name), world_), Kind::kTemporary);
  if (input != kNoTensor) machine_.Release(input);
  return cast;
}

// wait_for_unshard: in forward the next module lets go of what was gathered.
void FullySharded::CopyOut(int32_t module) {
  Group& group = GroupOf(module);
  if (group.gathered == kNoTensor) return;
  MakeUnsharded(module);
  if (world_ > 1) {
    PassNumbers(
        NumbersToSplit(GatheredTypes(module), GatheringRanks(module), calls_.settings().device));
  }
  if (group.sharded == Sharded::kAfterForward) {
    for (TensorId& tensor : group.smaller) machine_.Release(std::exchange(tensor, kNoTensor));
  }
  group.sharded = Sharded::kNot;
  TensorId done = std::exchange(group.gathered, kNoTensor);
  if (group.state == State::kForward) std::swap(done, last_gathered_);
  if (done != kNoTensor) machine_.Release(done);
}

// One rank alone copies and casts parameter by parameter, each by the same local name.
void FullySharded::MakeUnsharded(int32_t module) {
  Group& group = GroupOf(module);
  const std::vector<NameId>& names = ModuleOf(module).parameters;
  const bool is_first = group.tensors.empty();
  TensorId input = kNoTensor;
  for (size_t i = 0; i < names.size(); ++i) {
    if (world_ == 1) {
      const TensorId before = std::exchange(input, GatherInput(names[i]));
      if (before != kNoTensor) machine_.Release(before);
    }
    is_first ? AddUnsharded(names[i], group) : machine_.AllocStorage(group.tensors[i]);
  }
  if (input != kNoTensor) machine_.Release(input);
}

void FullySharded::AddUnsharded(NameId name, Group& group) {
  const TensorId padded =
      machine_.New(Gathered(TypeOf(name), world_), calls_.NameLabel(name), Kind::kParameter);
  const Dims& dims = TypeOf(name).dims;
  group.tensors.push_back(machine_.View(padded, dims, ContiguousStrides(dims)));
  machine_.Release(padded);
  forward_.BindOfModel(name, group.tensors.back());
}

// To a mesh of its own, or back to that of all: each is copied, then its whole is gone.
void FullySharded::ReshardAfterForward(int32_t module) {
  Group& group = GroupOf(module);
  if (ranks_.fsdp_reshard == 0 || ranks_.fsdp_reshard == world_) return Reshard(module);
  if (group.sharded == Sharded::kAfterForward) return;
  const std::vector<NameId>& names = ModuleOf(module).parameters;
  group.smaller.resize(names.size(), kNoTensor);
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    TensorType type = Gathered(TypeOf(names[i]), world_);
    type.dims[0] /= ranks_.fsdp_reshard;
    const TensorId before = std::exchange(
        group.smaller[i], machine_.New(type, calls_.NameLabel(names[i]), Kind::kParameter));
    if (before != kNoTensor) machine_.Release(before);
    machine_.FreeStorage(group.tensors[i]);
  }
  group.sharded = Sharded::kAfterForward;
}

void FullySharded::Reshard(int32_t module) {
  Group& group = GroupOf(module);
  if (std::exchange(group.sharded, Sharded::kAll) != Sharded::kNot) return;
  for (const TensorId tensor : group.tensors) machine_.FreeStorage(tensor);
}

// A table that is taken to the device.
void FullySharded::PassNumbers(int64_t numbers) {
  machine_.Release(New({DType::kInt64, {numbers}}, Kind::kTemporary));
}

}  // namespace onnxfit
