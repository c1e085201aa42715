// What the evaluators do with a tensor's elements, on strided loops.
#pragma once

#include <cstdint>
#include <utility>

#include "estimator/base/strided_loops.h"
#include "estimator/onnx/constants.h"

namespace onnxfit {

// `tensor` with other elements: `change` maps a vector of either kind to one of its own.
template <typename Change>
HostTensor WithElements(const HostTensor& tensor, Dims dims, Dims stored, Change change) {
  Elements changed =
      std::visit([&](const auto& from) { return Elements(change(from)); }, tensor.elements->Get());
  return {tensor.dtype, std::move(dims), std::move(stored),
          std::make_shared<const LazyElements>(std::move(changed))};
}

// `tensor` stored over `stored`, each dimension of which is that of its stored or dims.
HostTensor StoredAs(const HostTensor& tensor, const Dims& stored);

// Which elements of input `i` are not 0, for a result with matrices of `size`: of its own matrices
// where they are of that size, else of all that it has.
Nonzeros NonzerosOfInput(const Call& call, size_t i, int64_t size);

// The same of a result with the elements of input `i`, each perhaps several times, whose matrices
// are the input's where these are of that size.
std::optional<Nonzeros> SpreadNonzeros(const Call& call, size_t i, int64_t size);

// Axis in [0, rank), counted from the end where negative.
inline size_t AxisOf(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

}  // namespace onnxfit
