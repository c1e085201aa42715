// The loops under the evaluators: walks over row-major tensors by strides.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/tensor_type.h"
#include "estimator/graph/constants.h"

namespace onnxfit {

// A place for a tensor inside a bigger loop: how far to step for one more along each
// axis of the loop; 0 repeats.
using Strides = std::vector<int64_t>;

Strides RowMajor(const Dims& dims);

// Strides to read a tensor of `stored` in a loop over `dims`, right-aligned as ONNX
// broadcasts: 0 where `stored` has 1 or no axis.
Strides BroadcastStrides(const Dims& stored, const Dims& dims);

// The smallest dims that both broadcast to; a 0 stays.
Dims BroadcastDims(const Dims& a, const Dims& b);

// Calls `row(start_0, …)` for each run along the last axis of `dims`, with where each
// of the `strides` starts there.
template <size_t N, typename Row>
void ForEachRow(const Dims& dims, const std::array<const Strides*, N>& strides, Row row) {
  if (Numel(dims) == 0) return;
  const size_t outer = dims.empty() ? 0 : dims.size() - 1;
  std::vector<int64_t> index(outer, 0);
  std::array<int64_t, N> at{};
  while (true) {
    row(at);
    size_t axis = outer;
    while (axis > 0) {
      --axis;
      const bool wraps = ++index[axis] == dims[axis];
      const int64_t steps = wraps ? 1 - dims[axis] : 1;
      for (size_t i = 0; i < N; ++i) at[i] += steps * (*strides[i])[axis];
      if (!wraps) break;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (outer == 0) return;
  }
}

inline int64_t LastOf(const std::vector<int64_t>& values, int64_t absent) {
  return values.empty() ? absent : values.back();
}

// The elements at start + sum(index * strides), for each index in `dims`.
template <typename T>
std::vector<T> Gathered(const std::vector<T>& from, const Dims& dims, const Strides& strides,
                        int64_t start = 0) {
  std::vector<T> to;
  to.reserve(static_cast<size_t>(Numel(dims)));
  const int64_t width = LastOf(dims, 1);
  const int64_t step = LastOf(strides, 1);
  ForEachRow<1>(dims, {&strides}, [&](const std::array<int64_t, 1>& at) {
    for (int64_t i = 0; i < width; ++i) to.push_back(from[Index(start + at[0] + i * step)]);
  });
  return to;
}

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

// Axis in [0, rank), counted from the end where negative.
inline size_t AxisOf(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

}  // namespace onnxfit
