// What DeepSpeed's ZeRO stage 3 makes of gradients: they are copied into a bucket, which is reduced
// and scattered when it is full; each rank keeps its part of every one until the optimizer's step.
// Source: deepspeed/runtime/zero/stage3.py and runtime/comm/coalesced_collectives.py, DeepSpeed
// 0.19.8, with contiguous_gradients and reduce_scatter, as they are by default.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/ranks/zero_gradients.h"

namespace onnxfit {

class ScatteredGradients {
 public:
  // All must outlive it.
  ScatteredGradients(CallTable& calls, ParameterGradients& gradients);

  // The bucket, and the rank's parts.
  void Construct();
  // A rank's elements of a parameter, and of all of them.
  int64_t PartOf(size_t parameter) const;
  int64_t Parts(const std::vector<size_t>& parameters) const;

  // When backward has made the gradient of that parameter, and all of them.
  void Take(size_t parameter);
  void EndBackward();

  // get_grad_norm_direct
  void PassNorms(const std::vector<size_t>& parameters) const;
  // _prepare_fp32_grad_for_sub_group: the gradient of the first stands for those of all.
  void Flatten(const std::vector<size_t>& parameters);
  // norm_for_param_grads, behind a step on the host.
  void DropNorms() { rank_.DropNorms(); }

 private:
  std::vector<TensorId> NewPaddings() const;
  void Reduce();
  TensorId Scatter() const;  // what is sent together; kNoTensor: nothing is
  void SendToHost(size_t parameter);

  CallTable& calls_;
  Machine& machine_;
  ParameterGradients& gradients_;
  ZeroGradients rank_;  // what it does with those that it keeps
  int64_t world_;
  TensorId bucket_ = kNoTensor;
  int64_t in_bucket_ = 0;         // elements
  std::vector<size_t> reducing_;  // parameters whose gradients are there, or too large for it
  TensorId parts_ = kNoTensor;    // grad_partitions_flat_buffer
};

}  // namespace onnxfit
