// How tensors lie in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/eager/machine.h"

namespace onnxfit {

// Strides of a contiguous tensor.
Dims ContiguousStrides(const Dims& dims);
bool IsContiguous(const Tensor& tensor);
// Contiguous in some order of its dimensions: no gaps, no overlap.
bool IsDense(const Tensor& tensor);

// Strides under which a tensor can be seen as `dims` without a copy; empty where it
// cannot (and `dims` is not a scalar).  Source: computeStride, aten/src/ATen/TensorUtils.cpp,
// pytorch v2.6.0.
struct ViewStrides {
  bool possible = false;
  Dims strides = {};
};
ViewStrides StridesOfView(const Tensor& tensor, const Dims& dims);

// `dims` in the order of `permutation`, and the permutation that undoes it.
Dims Permuted(const Dims& dims, const std::vector<int64_t>& permutation);
std::vector<int64_t> Inverse(const std::vector<int64_t>& permutation);

// Strides of `tensor` seen as the larger `dims`: 0 where a dimension is new or was 1.
Dims ExpandedStrides(const Tensor& tensor, const Dims& dims);

// Strides of a part of `tensor`: its own, or those of a selection, which has fewer
// dimensions.
Dims NarrowedStrides(const Tensor& tensor, const Dims& dims);

}  // namespace onnxfit
