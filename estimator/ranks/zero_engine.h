// DeepSpeed's engine around the model, its optimizer and backward: ZeRO stages 1 and 2
// (zero_partition.h) or 3 (zero_stage3.h).  Source: deepspeed/runtime/engine.py, DeepSpeed 0.19.8.
#pragma once

#include <cstddef>
#include <optional>

#include "estimator/optimizers/optimizer_step.h"
#include "estimator/ranks/zero_partition.h"
#include "estimator/ranks/zero_stage3.h"

namespace onnxfit {

class ZeroEngine {
 public:
  // deepspeed.initialize(model=model, optimizer=optimizer, config=…), of calls before `model_end`.
  // Throws Error where the settings ask for what is not known of it.  All must outlive it.
  ZeroEngine(CallTable& calls, Forward& forward, ParameterGradients& gradients,
             OptimizerStep& optimizer, size_t model_end);

  // Around the model's forward.
  void BeginForward();
  void EndForward();

  // As ZeroStage3 has them, which alone has modules' hooks.
  void BeforeBackward(int32_t module) { stage3_->BeforeBackward(module); }
  void AfterBackward(int32_t module) { stage3_->AfterBackward(module); }
  void EndBackward();

  // engine.step(), behind the last micro-batch.
  void Step();

 private:
  void StepByGroup();

  OptimizerStep& optimizer_;
  std::optional<ZeroPartition> partition_;
  std::optional<ZeroStage3> stage3_;
};

}  // namespace onnxfit
