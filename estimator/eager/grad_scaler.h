// torch.amp.GradScaler: the scalars by which it scales the loss and undoes that.
// Source: torch/amp/grad_scaler.py, pytorch v2.11.0, and recorded events.
#pragma once

#include "estimator/eager/machine.h"

namespace onnxfit {

// Without autocast to fp16 there is none: pass `enabled` false, and nothing happens.
class GradScaler {
 public:
  GradScaler(Machine& machine, bool enabled) : machine_(machine), enabled_(enabled) {}

  // scaler.scale(loss), whose result the caller owns; kNoTensor where there is no scaler.
  TensorId Scale();

  // scaler.unscale_(optimizer).
  void Unscale();

  // scaler.step(optimizer) before and after optimizer.step(), scaler.update() after that.
  // Fused optimizers undo the scale in their kernels, unless Unscale did.
  void BeforeStep(bool fused);
  void AfterStep();

 private:
  TensorId New(DType dtype, const char* name, Kind kind = Kind::kTemporary);
  void CheckInf();
  void CopyToDevices(TensorId inverse, TensorId found);
  void Drop(TensorId& tensor);

  Machine& machine_;
  bool enabled_;
  bool made_ = false;
  TensorId found_inf_ = kNoTensor;   // until update()
  TensorId sum_ = kNoTensor;         // of found_inf, and the scale: what a fused
  TensorId grad_scale_ = kNoTensor;  // optimizer is given for its step
};

}  // namespace onnxfit
