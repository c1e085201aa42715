#include "estimator/operators/layouts.h"

namespace onnxfit {

TensorType CopyUnlessContiguous(const StridedType& type) {
  return CopyUnlessIn(MemoryFormat::kContiguous, type);
}

TensorType CopyUnlessIn(MemoryFormat format, const StridedType& type) {
  return IsContiguousIn(format, type) ? TensorType() : TensorType{type.dtype, type.dims};
}

}  // namespace onnxfit
