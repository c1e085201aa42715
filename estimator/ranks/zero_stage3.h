// What DeepSpeed's ZeRO stage 3 asks of its rank's allocator: parts of parameters, which modules'
// hooks gather (parameter_coordinator.h); parts of gradients (scattered_gradients.h); the parts in
// 32 bits, which the optimizer steps.  What NCCL allocates is not the allocator's.  Sources:
// deepspeed/runtime/zero/{stage3,parameter_offload}.py, DeepSpeed 0.19.8; recorded events.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/program/span_values.h"
#include "estimator/ranks/hooked_modules.h"
#include "estimator/ranks/parameter_coordinator.h"
#include "estimator/ranks/scattered_gradients.h"

namespace onnxfit {

class ZeroStage3 {
 public:
  // Of calls before `model_end`.  All must outlive it.
  ZeroStage3(CallTable& calls, Forward& forward, ParameterGradients& gradients, size_t model_end);

  // The constructor, behind model.to("cuda").  O(parameters).
  void Construct();

  // Parameters that the optimizer steps together, of which the first stands for all: what it sees
  // of each (StepShards).
  const std::vector<std::vector<size_t>>& groups() const { return groups_; }
  std::vector<TensorType> ShardTypes() const;

  // Around the model's forward.
  void BeginForward();
  void EndForward();

  // Before backward runs what made what a module returned; when a gradient of what that was given
  // has come; when that of a parameter has.
  void BeforeBackward(int32_t module) { coordinator_.Fetch(module, /*is_forward=*/false); }
  void AfterBackward(int32_t module);
  void TakeGradient(size_t parameter);
  void EndBackward();

  // Around the optimizer's step, and that of a group.
  void BeginStep();
  void BeginGroup(const std::vector<size_t>& group) { scattered_.Flatten(group); }
  void EndGroup(const std::vector<size_t>& group) { gradients_.Drop(group[0], machine_); }
  void EndStep();

 private:
  // What a module is given, as its caller has it.
  using Arguments = std::vector<std::pair<NameId, TensorId>>;

  void ConstructShards();
  void SetGroups();
  void FindLeaves();
  void TakeGradientsOf(int32_t module);
  void Hook();
  void Before(int32_t call, bool again);
  void After(int32_t call, bool again);
  void Receive(size_t run);
  void GiveBack(size_t run);
  void Return(const std::vector<NameId>& names, int32_t module);

  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  ParameterGradients& gradients_;
  GatheredParameters gathered_;
  ScatteredGradients scattered_;
  const HookedModules modules_;
  const std::vector<SpanValues> values_;  // by run
  ParameterCoordinator coordinator_;
  std::vector<std::vector<size_t>> groups_;
  std::vector<std::vector<size_t>> begins_;   // by call: the runs that it begins, outer ones first
  std::vector<std::vector<size_t>> ends_;     // the same that it ends, inner ones first
  std::vector<Arguments> arguments_;          // by run
  std::vector<int64_t> awaited_;              // by module: ds_grads_remaining
  std::vector<std::vector<size_t>> of_leaf_;  // by module that is a whole: its trained parameters
  std::vector<bool> is_in_leaf_;              // by trained parameter
  TensorId scaled_norm_ = kNoTensor;          // scaled_global_grad_norm, in 64 bits, while it steps
  TensorId norm_ = kNoTensor;                 // _global_grad_norm, the same
  TensorId norm_before_ = kNoTensor;          // the engine's, until the step has ended
  LabelId label_;
};

}  // namespace onnxfit
