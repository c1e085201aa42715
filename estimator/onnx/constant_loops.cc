#include "estimator/onnx/constant_loops.h"

namespace onnxfit {

HostTensor StoredAs(const HostTensor& tensor, const Dims& stored) {
  if (tensor.stored == stored) return tensor;
  const Strides strides = BroadcastStrides(tensor.stored, stored);
  return WithElements(tensor, tensor.dims, stored,
                      [&](const auto& from) { return Gathered(from, stored, strides); });
}

HostTensor InFull(const HostTensor& tensor) { return StoredAs(tensor, tensor.dims); }

Nonzeros NonzerosOfInput(const Call& call, size_t i, int64_t size) {
  const HostTensor& in = call.in(i);
  return in.elements->NonzerosOf(MatrixSize(in.stored) == size ? size : 0);
}

std::optional<Nonzeros> SpreadNonzeros(const Call& call, size_t i, int64_t size) {
  const Nonzeros own = NonzerosOfInput(call, i, size);
  const bool keeps_matrices = MatrixSize(call.in(i).stored) == size;
  return keeps_matrices || own != Nonzeros::kMixed ? std::optional(own) : std::nullopt;
}

}  // namespace onnxfit
