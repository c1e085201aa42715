// The parameters that DeepSpeed's ZeRO stage 3 shares among ranks: each rank's part of them, and
// the whole of those that are gathered.  Source: deepspeed/runtime/zero/partition_parameters.py
// (Init), DeepSpeed 0.19.8, and recorded events.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"

namespace onnxfit {

class GatheredParameters {
 public:
  // All must outlive it.
  GatheredParameters(CallTable& calls, Forward& forward);

  // Init(module=model), of a model on the device: each parameter gives way to a part of it.
  void Partition();
  // defragment: the parts of those that are trained come to lie in one tensor.
  void Defragment();

  // All of the model's, in the order of model.parameters(): what indices count.
  const std::vector<NameId>& names() const { return names_; }
  int64_t ElementsOf(size_t parameter) const { return elements_[parameter]; }
  // Of each rank, the last one's with padding.
  int64_t PartOf(size_t parameter) const;
  DType TypeOf(size_t parameter) const;

  // ZeroParamStatus
  bool IsIdle(size_t parameter) const { return states_[parameter] == State::kIdle; }
  bool IsWhole(size_t parameter) const { return states_[parameter] == State::kWhole; }
  // Whether nobody has waited for it since it was gathered.
  bool IsAwaited(size_t parameter) const { return handles_[parameter] != nullptr; }

  // all_gather_coalesced, of idle ones: several come in one tensor.
  void Gather(const std::vector<size_t>& parameters);
  // The first wait splits that tensor, the last lets go of it.
  void Wait(size_t parameter);
  // all_gather: each in a tensor of its own, at once.
  void GatherApart(const std::vector<size_t>& parameters);
  // free_param
  void Free(size_t parameter);

 private:
  enum class State : uint8_t { kIdle, kInFlight, kWhole };

  // AllGatherCoalescedHandle
  struct Handle {
    std::vector<size_t> parameters = {};
    TensorId together = kNoTensor;
    bool is_complete = false;
    int64_t waiting = 0;  // parameters
  };

  void SetWhole(size_t parameter, int64_t elements);
  void Complete(Handle& handle);

  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  int64_t world_;
  std::vector<NameId> names_;
  std::vector<int64_t> elements_;
  std::vector<bool> is_trained_;
  std::vector<State> states_;
  std::vector<std::shared_ptr<Handle>> handles_;  // the registry of those in flight
  std::vector<TensorId> parts_;                   // that lie apart
  TensorId nothing_ = kNoTensor;                  // what idle ones have
  LabelId label_;
};

}  // namespace onnxfit
