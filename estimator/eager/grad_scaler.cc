#include "estimator/eager/grad_scaler.h"

#include <utility>

namespace onnxfit {

TensorId GradScaler::New(DType dtype, const char* name, Kind kind) {
  return machine_.New({dtype, {}}, machine_.AddLabel(name), kind);
}

void GradScaler::Drop(TensorId& tensor) {
  if (tensor != kNoTensor) machine_.Release(std::exchange(tensor, kNoTensor));
}

// The scale and its tracker are made at the first call.
TensorId GradScaler::Scale() {
  if (!enabled_) return kNoTensor;
  if (!std::exchange(made_, true)) {
    New(DType::kFloat32, "GradScaler.scale", Kind::kBuffer);
    New(DType::kInt32, "GradScaler.growth_tracker", Kind::kBuffer);
  }
  return New(DType::kFloat32, "GradScaler.scaled_loss");
}

// inv_scale = scale.double().reciprocal().float()
void GradScaler::Unscale() {
  if (!enabled_) return;
  TensorId scale = New(DType::kFloat64, "GradScaler.scale.double");
  TensorId reciprocal = New(DType::kFloat64, "GradScaler.inv_scale.double");
  Drop(scale);
  TensorId inverse = New(DType::kFloat32, "GradScaler.inv_scale");
  Drop(reciprocal);
  TensorId found = New(DType::kFloat32, "GradScaler.found_inf");
  CopyToDevices(inverse, found);
}

// _check_inf_per_device: the same with a scale of 1.
void GradScaler::CheckInf() {
  const TensorId inverse = New(DType::kFloat32, "GradScaler.inv_scale");
  const TensorId found = New(DType::kFloat32, "GradScaler.found_inf");
  CopyToDevices(inverse, found);
}

// _unscale_grads_: each device has a copy, the one that they were made on too.
void GradScaler::CopyToDevices(TensorId inverse, TensorId found) {
  found_inf_ = New(DType::kFloat32, "GradScaler.found_inf");
  machine_.Release(New(DType::kFloat32, "GradScaler.inv_scale"));
  machine_.Release(inverse);
  machine_.Release(found);
}

void GradScaler::BeforeStep(bool fused) {
  if (!enabled_) return;
  const bool unscaled = found_inf_ != kNoTensor;
  if (!fused) {
    if (!unscaled) Unscale();
    return;
  }
  if (!unscaled) CheckInf();
  sum_ = New(DType::kFloat32, "GradScaler.found_inf");
  if (!unscaled) grad_scale_ = New(DType::kFloat32, "GradScaler.grad_scale");
}

void GradScaler::AfterStep() {
  Drop(grad_scale_);
  Drop(sum_);
  Drop(found_inf_);
}

}  // namespace onnxfit
