// What both of DeepSpeed's stages do with the gradients that a rank keeps: their norms, and copies
// of them on the way to an optimizer on the host.  Source: deepspeed/runtime/zero/
// stage_1_and_2.py, stage3.py and utils.py, DeepSpeed 0.19.8.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/eager/call_table.h"

namespace onnxfit {

class ZeroGradients {
 public:
  // `calls` must outlive it.
  explicit ZeroGradients(CallTable& calls);

  // Of all parameters, which have one type.
  DType type() const { return type_; }
  int64_t ElementsOf(size_t parameter) const;
  const Dims& DimsOf(size_t parameter) const;

  TensorId New(DType type, int64_t elements, Kind kind) const;

  // In 64 bits (get_norm_dtype).  `has_scratch`: of the sum, which events of stage 2's
  // get_grad_norm_direct do not show where all other norms of a run have it.
  TensorId NormOf(int64_t elements, bool has_scratch = true) const;
  TensorId NewNorm() const { return machine_.New({DType::kFloat64, {}}, label_); }
  // get_grad_norm_direct, of so many elements each.
  void PassNorms(const std::vector<int64_t>& elements, bool has_scratch = true) const;

  // norm_for_param_grads, until the step on the host has ended.
  void KeepNorm(TensorId norm) { norms_.push_back(norm); }
  void DropNorms();

  // A copy in 32 bits, if gradients are no such.
  void PassIn32Bits(int64_t elements) const;

  // Of the step's micro-batches, the last of which goes to the host.
  bool IsLastMicroBatch() const;
  void EndMicroBatch();

 private:
  CallTable& calls_;
  Machine& machine_;
  DType type_ = DType::kUndefined;
  std::vector<TensorId> norms_;
  int64_t micro_batch_ = 0;  // of the step
  LabelId label_;
};

}  // namespace onnxfit
