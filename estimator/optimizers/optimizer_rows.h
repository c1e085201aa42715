// What rows of optimizers are made of, and the rows of each library.  Internal to the room
// optimizers/.
#pragma once

#include <span>

#include "estimator/optimizers/optimizer_rule.h"

namespace onnxfit {

// Each library's: the first of an optimizer is the implementation taken by default.
std::span<const OptimizerRule> OptimizersOfTorch();
std::span<const OptimizerRule> OptimizersOfBitsandbytes();
std::span<const OptimizerRule> OptimizersOfTorchao();
std::span<const OptimizerRule> OtherOptimizers();

inline TensorType Same(const TensorType& parameter) { return parameter; }
inline TensorType Scalar(const TensorType& parameter) { return {parameter.dtype, {}}; }

inline TensorType Matrix(const TensorType& parameter) {
  return parameter.dims.size() < 2 ? TensorType() : parameter;
}

inline TensorType Vector(const TensorType& parameter) {
  return parameter.dims.size() < 2 ? parameter : TensorType();
}

// torch.optim.Adafactor: a row and a column instead of the matrix.
inline TensorType RowVariance(const TensorType& parameter) {
  TensorType type = Matrix(parameter);
  if (!type.dims.empty()) type.dims.back() = 1;
  return type;
}

inline TensorType ColumnVariance(const TensorType& parameter) {
  TensorType type = Matrix(parameter);
  if (!type.dims.empty()) type.dims[type.dims.size() - 2] = 1;
  return type;
}

inline TensorType MeanOfRows(const TensorType& parameter) {
  return ColumnVariance(RowVariance(parameter));
}

inline TensorType InFp32(const TensorType& parameter) {
  const bool wider = parameter.dtype == DType::kFloat64;
  return {wider ? parameter.dtype : DType::kFloat32, parameter.dims};
}
inline TensorType CopyInFp32(const TensorType& parameter) {
  return InFp32(parameter).dtype == parameter.dtype ? TensorType() : InFp32(parameter);
}

inline constexpr OptimizerStates kMoments = {{{"exp_avg", Same}, {"exp_avg_sq", Same}}};

// grad = grad.add(param, alpha=weight_decay); a list's is a new list.
inline constexpr UpdateStep kDecay = Bind(Local::kGradient, {Same});
// grad = grads[i], where the last turn has decayed its own
inline constexpr UpdateStep kNextGradient = Delete(Local::kGradient);

}  // namespace onnxfit
