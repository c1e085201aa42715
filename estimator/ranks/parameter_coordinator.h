// Which parameters DeepSpeed's ZeRO stage 3 gathers, when, and when it lets go of them: the first
// forward and backward pass is recorded, later ones gather ahead of it.  Sources:
// deepspeed/runtime/ zero/{partitioned_param_coordinator,parameter_offload}.py, DeepSpeed 0.19.8.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "estimator/ranks/gathered_parameters.h"

namespace onnxfit {

// PartitionedParameterCoordinator
class ParameterCoordinator {
 public:
  // `modules`: by module, its own parameters.  All must outlive it.
  ParameterCoordinator(GatheredParameters& gathered,
                       const std::vector<std::vector<size_t>>& modules, const RankSettings& ranks);

  // reset_step, before each forward pass of the model.
  void BeginPass();
  // Before a module runs, forward or backward; behind that.
  void Fetch(int32_t module, bool is_forward);
  void Release(int32_t module, bool is_forward);
  // Behind backward: what no hook has let go of.
  void ReleaseLeftovers();
  // Before the optimizer's step; those that stay whole until the next come back behind it.
  void ReleaseAll();
  void GatherPersistent();

 private:
  // ZeRoTraceMode
  enum class Trace : uint8_t { kInvalid, kRecord, kComplete };

  struct Use {
    size_t parameter = 0;
    int64_t at = 0;  // index into order_
  };

  const std::vector<size_t>& ParametersOf(int32_t module) const { return modules_[Index(module)]; }
  void CompleteTrace();
  void Prefetch(int32_t module);
  void DropFromQueue(int32_t module);
  void Gather(const std::vector<size_t>& parameters);
  void ReleaseOne(size_t parameter);
  std::set<size_t> Releasable(int32_t module) const;

  GatheredParameters& gathered_;
  const std::vector<std::vector<size_t>>& modules_;
  int64_t prefetch_bucket_;
  std::vector<bool> is_persistent_;
  Trace trace_ = Trace::kInvalid;
  std::vector<int32_t> order_;             // modules: __submodule_order
  std::vector<Use> uses_;                  // __param_order
  std::deque<Use> queue_;                  // of those, what was not fetched yet
  int64_t at_ = 0;                         // __step_id
  int64_t available_ = 0;                  // elements: __n_available_params
  std::vector<int64_t> fetched_for_;       // by parameter: the last use that it was for
  std::vector<std::set<int32_t>> active_;  // by parameter: modules that run
  std::vector<int32_t> in_backward_;       // modules
};

}  // namespace onnxfit
