#include "estimator/graph/constant_loops.h"

namespace onnxfit {

HostTensor StoredAs(const HostTensor& tensor, const Dims& stored) {
  if (tensor.stored == stored) return tensor;
  const Strides strides = BroadcastStrides(tensor.stored, stored);
  return WithElements(tensor, tensor.dims, stored,
                      [&](const auto& from) { return Gathered(from, stored, strides); });
}

HostTensor InFull(const HostTensor& tensor) { return StoredAs(tensor, tensor.dims); }

}  // namespace onnxfit
