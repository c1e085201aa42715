// Loops over row-major tensors by strides, which a dimension of 1 repeats along.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// A place for a tensor inside a bigger loop: how far to step for one more along each
// axis of the loop; 0 repeats.
using Strides = std::vector<int64_t>;

Strides RowMajor(const Dims& dims);

// Strides to read a tensor of `stored` in a loop over `dims`, right-aligned as ONNX
// broadcasts: 0 where `stored` has 1 or no axis.
Strides BroadcastStrides(const Dims& stored, const Dims& dims);

// The smallest dims that both broadcast to, if they do; a 0 stays.
Dims BroadcastDims(const Dims& a, const Dims& b);
// Whether each dimension of `stored`, aligned from the right, is that of `dims` or 1.
bool BroadcastsTo(const Dims& stored, const Dims& dims);

// A tensor of `dims` that is stored over `stored`, where each dimension is as in `dims`, or 1
// where the elements repeat: over what its elements are stored when it is viewed as `to`, as far as
// that puts dimensions of 1 in or takes them out, and when it is expanded to `to`.
// nullopt where that is not what leads there.
std::optional<Dims> ViewedStored(const Dims& dims, const Dims& stored, const Dims& to);
std::optional<Dims> ExpandedStored(const Dims& dims, const Dims& stored, const Dims& to);

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

// The same loop over fewer axes: those of 1 are left out, and those that go on where the next one
// ends, by all of the strides, are one with it.
template <size_t N>
struct StridedLoop {
  Dims dims;
  std::array<Strides, N> strides;
};
template <size_t N>
StridedLoop<N> Collapsed(const Dims& dims, const std::array<const Strides*, N>& strides) {
  StridedLoop<N> loop;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] == 1) continue;
    bool goes_on = !loop.dims.empty();
    for (size_t i = 0; i < N && goes_on; ++i) {
      goes_on = loop.strides[i].back() == (*strides[i])[axis] * dims[axis];
    }
    if (!goes_on) loop.dims.push_back(1);
    loop.dims.back() *= dims[axis];
    for (size_t i = 0; i < N; ++i) {
      if (!goes_on) loop.strides[i].push_back(0);
      loop.strides[i].back() = (*strides[i])[axis];
    }
  }
  return loop;
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
  const StridedLoop<1> loop = Collapsed<1>(dims, {&strides});
  const int64_t width = LastOf(loop.dims, 1);
  const int64_t step = LastOf(loop.strides[0], 1);
  ForEachRow<1>(loop.dims, {&loop.strides[0]}, [&](const std::array<int64_t, 1>& at) {
    for (int64_t i = 0; i < width; ++i) to.push_back(from[Index(start + at[0] + i * step)]);
  });
  return to;
}

// op(left, right) for each index in `dims`, to which both broadcast.
template <typename Out, typename In, typename Op>
std::vector<Out> Zipped(const Dims& dims, const std::vector<In>& left, const Strides& left_strides,
                        const std::vector<In>& right, const Strides& right_strides, Op op) {
  const StridedLoop<2> loop = Collapsed<2>(dims, {&left_strides, &right_strides});
  const int64_t left_step = LastOf(loop.strides[0], 1);
  const int64_t right_step = LastOf(loop.strides[1], 1);
  const int64_t width = LastOf(loop.dims, 1);
  std::vector<Out> out;
  out.reserve(static_cast<size_t>(Numel(dims)));
  ForEachRow<2>(
      loop.dims, {&loop.strides[0], &loop.strides[1]}, [&](const std::array<int64_t, 2>& at) {
        for (int64_t i = 0; i < width; ++i) {
          out.push_back(
              op(left[Index(at[0] + i * left_step)], right[Index(at[1] + i * right_step)]));
        }
      });
  return out;
}

}  // namespace onnxfit
