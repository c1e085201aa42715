// How results lie in memory, and what kernels copy because of how their inputs lie: for rows.
// A copy of dtype kUndefined is not made.
#pragma once

#include "estimator/base/tensor_type.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {

// --- Results ---

// In the memory format that input 0 suggests: at::empty(…, x.suggest_memory_format()).
inline Dims InFormat(const CallTypes& call) {
  return StridesIn(SuggestedFormat(call.in(0)), call.out(0).dims);
}
// In the order of input 0's dimensions: at::empty_like(x).
inline Dims AsInput(const CallTypes& call) { return StridesLike(call.in(0)); }

// --- Copies ---

TensorType CopyUnlessContiguous(const StridedType& type);
TensorType CopyUnlessIn(MemoryFormat format, const StridedType& type);

// x.contiguous() of input kInput, where it is there.
template <size_t kInput>
TensorType DenseInput(const CallTypes& call) {
  return call.has_input(kInput) ? CopyUnlessContiguous(call.in(kInput)) : TensorType();
}
inline TensorType DenseGradient(const CallTypes& call) {
  return CopyUnlessContiguous(call.incoming_gradient());
}
// x.contiguous(x.suggest_memory_format()) of input 0, and of the incoming gradient in the format of
// that.
inline TensorType InputInFormat(const CallTypes& call) {
  return CopyUnlessIn(SuggestedFormat(call.in(0)), call.in(0));
}
inline TensorType GradientInFormat(const CallTypes& call) {
  return CopyUnlessIn(SuggestedFormat(call.in(0)), call.incoming_gradient());
}

}  // namespace onnxfit
