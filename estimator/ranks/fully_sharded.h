// What torch.distributed.fsdp.fully_shard (FSDP2) asks of its rank's allocator: shards of
// parameters, what is gathered of them while a module runs, gradients that are reduced and
// scattered.  What NCCL allocates is not the allocator's.  Sources: torch/distributed/fsdp/
// _fully_shard/{_fsdp_param_group,_fsdp_collectives,_fsdp_param,_fsdp_state}.py, pytorch v2.11.0,
// and recorded events.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/program/sharded_modules.h"
#include "estimator/program/span_values.h"

namespace onnxfit {

// Throws Error where these settings ask for what is not known of sharded models.
void CheckFullySharded(const Program& program, const TrainingSettings& settings);

// fully_shard(module) for those that the settings name, then fully_shard(model), over the ranks of
// a mesh of one dimension, or of those of a replica in one of two, of a model on the host.  The
// first rank has the first rows of each parameter, as many as any rank.
class FullySharded {
 public:
  // All must outlive it.
  FullySharded(CallTable& calls, Forward& forward, ParameterGradients& gradients);

  // The calls to fully_shard: each module's tensors come to the device whole, then their shards
  // alone stay.  O(tensors).
  void Construct();

  // What the optimizer sees of each trained parameter, by its index.
  std::vector<TensorType> ShardTypes() const;

  // A run of a module within the model.
  struct Run {
    int32_t module = 0;
    CallSpan span = {};
    SpanValues values = {};
  };
  const std::vector<Run>& runs() const { return runs_; }  // in order of their calls

  // What the loop gives the model for a tensor of that type.
  TensorType InputType(TensorType type) const;

  // The hooks around the forward of the model, and of a module in it.
  void BeforeModel();
  void AfterModel();
  void Before(const Run& run);
  void After(const Run& run);

  // set_requires_gradient_sync: whether the next backward scatters gradients.
  void SetReduces(bool reduces) { reduces_ = reduces; }

  // Around backward; when it reaches what `module` returned; when it has the gradients of what that
  // was given.
  void BeginBackward();
  void EndBackward();
  void BeforeBackward(int32_t module);
  void AfterBackward(int32_t module);

 private:
  enum class State : uint8_t { kIdle, kForward, kBeforeBackward, kAfterBackward };

  // ShardedState
  enum class Sharded : uint8_t { kAll, kAfterForward, kNot };

  // FSDPParamGroup.
  struct Group {
    std::vector<TensorId> tensors = {};  // by parameter of the module: unsharded
    std::vector<TensorId> smaller = {};  // the same, of a smaller mesh
    TensorId gathered = kNoTensor;       // all_gather_output, until it is copied out
    std::vector<size_t> uses = {};       // where order_ has it
    State state = State::kIdle;
    Sharded sharded = Sharded::kAll;
  };

  // A parameter on the device, before it is sharded.
  struct Whole {
    TensorId tensor = kNoTensor;
    int64_t modules = 0;  // which have it under some name, and have not sharded it yet
  };

  const ShardedModule& ModuleOf(int32_t module) const { return modules_[Index(module)]; }
  Group& GroupOf(int32_t module) { return groups_[Index(module)]; }
  void FindValues();
  TensorId New(const TensorType& type, Kind kind);
  const TensorType& TypeOf(NameId name) const;
  TensorType StoredType(NameId name) const;
  TensorType ShardOf(NameId name) const;
  std::vector<TensorType> TypesOf(const std::vector<NameId>& names) const;
  std::vector<TensorType> StoredTypes(const std::vector<NameId>& names) const;

  NameId FirstNameOf(NameId name) const;
  bool IsShared(NameId name) const { return shared_.contains(name); }
  void Place(int32_t module);
  void PlaceShared();
  void PlaceShard(NameId name);
  void LeaveWhole(NameId name);
  void Enter(int32_t module);
  void Leave(int32_t module);
  void Unshard(int32_t module);
  void CopyOut(int32_t module);
  void MakeUnsharded(int32_t module);
  void AddUnsharded(NameId name, Group& group);
  std::vector<TensorType> GatheredTypes(int32_t module) const;
  int64_t GatheringRanks(int32_t module) const;
  void ReshardAfterForward(int32_t module);
  void Reshard(int32_t module);
  std::vector<TensorId> GatherInputs(int32_t module);
  TensorId GatherInput(NameId name);
  void Prefetch(int32_t module);
  std::vector<size_t> WithGradients(int32_t module) const;
  void KeepUnreduced(const std::vector<size_t>& parameters);
  void DropUnsharded(size_t parameter);
  void Reduce(const std::vector<size_t>& parameters);
  void SetShards(const std::vector<size_t>& parameters, TensorId reduced);
  void PassNumbers(int64_t numbers);
  void Receive(const Run& run);
  void GiveBack();
  void HookReturned(const std::vector<NameId>& names, int32_t module);

  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  ParameterGradients& gradients_;
  const RankSettings& ranks_;
  std::vector<ShardedModule> modules_;
  std::vector<Group> groups_;  // by module
  std::vector<Run> runs_;
  std::map<NameId, size_t> parameter_of_;               // of those that are trained: their index
  std::map<NameId, Whole> wholes_;                      // by first name
  std::set<NameId> shared_;                             // Program::shared
  int64_t world_;                                       // ranks that share each parameter
  bool reduces_ = true;                                 // reduce_grads
  bool has_unreduced_ = false;                          // gradients that no backward has scattered
  std::vector<TensorId> accumulated_;                   // by parameter: shards of gradients
  std::vector<TensorId> unreduced_;                     // unsharded_accumulated_grad
  std::vector<std::pair<NameId, TensorId>> arguments_;  // of the run: as the caller has them
  std::vector<TensorId> casts_;                         // of what the model was given
  std::vector<int32_t> order_;                          // post_forward_order
  TensorId last_gathered_ = kNoTensor;                  // all_gather_state
  TensorId last_reduced_ = kNoTensor;                   // reduce_scatter_state
  LabelId label_;
};

}  // namespace onnxfit
