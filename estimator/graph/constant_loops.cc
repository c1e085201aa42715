#include "estimator/graph/constant_loops.h"

namespace onnxfit {

Strides RowMajor(const Dims& dims) {
  Strides strides(dims.size());
  int64_t step = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= dims[axis];
  }
  return strides;
}

Strides BroadcastStrides(const Dims& stored, const Dims& dims) {
  const Strides own = RowMajor(stored);
  Strides strides(dims.size(), 0);
  const size_t added = dims.size() - stored.size();
  for (size_t axis = 0; axis < stored.size(); ++axis) {
    if (stored[axis] != 1) strides[axis + added] = own[axis];
  }
  return strides;
}

Dims BroadcastDims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  const size_t added = longer.size() - shorter.size();
  for (size_t axis = 0; axis < shorter.size(); ++axis) {
    if (dims[axis + added] == 1) dims[axis + added] = shorter[axis];
  }
  return dims;
}

HostTensor StoredAs(const HostTensor& tensor, const Dims& stored) {
  if (tensor.stored == stored) return tensor;
  const Strides strides = BroadcastStrides(tensor.stored, stored);
  return WithElements(tensor, tensor.dims, stored,
                      [&](const auto& from) { return Gathered(from, stored, strides); });
}

HostTensor InFull(const HostTensor& tensor) { return StoredAs(tensor, tensor.dims); }

}  // namespace onnxfit
