// What DeepSpeed's ZeRO stages 1 and 2 ask of their rank's allocator: parameters in one flat
// buffer, of which it steps a part in 32 bits; buckets in which gradients are reduced, of which it
// keeps that part.  Stage 2 reduces each gradient as it is made, stage 1 all of them behind the
// step's last backward (with overlap_comm as they are made there).  What NCCL allocates is not the
// allocator's.  Source: deepspeed/runtime/zero/ stage_1_and_2.py, DeepSpeedZeroOptimizer, DeepSpeed
// 0.19.8, with contiguous_gradients, as it is by default; and the allocator's figures of such runs.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/ranks/zero_gradients.h"

namespace onnxfit {

// Throws Error where these settings ask for what is not known of it.
void CheckZeroPartition(const Program& program, const TrainingSettings& settings);

// The first rank's part, of as many elements as any rank's, which begins with the first parameter.
class ZeroPartition {
 public:
  // All must outlive it.
  ZeroPartition(CallTable& calls, Forward& forward, ParameterGradients& gradients);

  // The constructor, behind model.to("cuda").  O(parameters).
  void Construct();

  // What the optimizer sees in the place of all parameters: the part, as its first.
  std::vector<TensorType> ShardTypes() const;

  // When backward has made the gradient of that parameter, and all of them.
  void TakeGradient(size_t parameter);
  void EndBackward();

  // Around the optimizer's step, which finds the part's gradient as that of the first parameter.
  void BeginStep();
  void EndStep();

 private:
  int64_t OwnOf(size_t parameter) const;
  void GiveView(TensorId of, size_t parameter);
  int64_t RankOf(int64_t element) const { return element / partition_; }
  void PassCopies() const;
  void PassNorms() const;
  bool KeepsGradients() const;
  void SetUpBuckets();
  void PutInBucket(size_t parameter);
  void Reduce();
  void ReduceAll();
  void SendToHost(size_t parameter);

  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  ParameterGradients& gradients_;
  ZeroGradients rank_;  // what it does with those that it keeps
  const bool is_stage1_;
  int64_t partition_ = 0;             // elements
  std::vector<int64_t> begins_;       // of parameters in the flat buffer
  int64_t kept_elements_ = 0;         // of the parameters that are in the part, if only with an end
  std::vector<TensorId> buckets_;     // two where they take turns
  size_t turn_ = 0;                   // which of them is being filled
  int64_t in_bucket_ = 0;             // elements
  std::vector<size_t> reducing_;      // parameters whose gradients are there
  std::vector<bool> is_reducing_;     // the same, by parameter
  TensorId kept_ = kNoTensor;         // grads_in_partition
  TensorId added_up_ = kNoTensor;     // all_grad_tensors: that of the step's first micro-batch
  TensorId scaled_norm_ = kNoTensor;  // scaled_global_grad_norm, while it steps
  TensorId norm_ = kNoTensor;         // _global_grad_norm
  TensorId norm_before_ = kNoTensor;  // the engine's, until the step has ended
};

}  // namespace onnxfit
