// How tensors lie in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

// Strides of a contiguous tensor.
Dims ContiguousStrides(const Dims& dims);
StridedType Contiguous(TensorType type);
bool IsContiguous(const StridedType& tensor);
// Contiguous in some order of its dimensions: no gaps, no overlap.
bool IsDense(const StridedType& tensor);

// Strides under which a tensor can be seen as `dims` without a copy; empty where it
// cannot (and `dims` is not a scalar).  Source: computeStride, aten/src/ATen/TensorUtils.cpp,
// pytorch v2.6.0.
struct ViewStrides {
  bool possible = false;
  Dims strides = {};
};
ViewStrides StridesOfView(const StridedType& tensor, const Dims& dims);

// Strides of `tensor` seen as `dims`, which have one or more 1 in front of its own: those of
// x.unsqueeze(0) and x[None], as nearly all code writes them.  Empty for other `dims`.
Dims UnsqueezedStrides(const StridedType& tensor, const Dims& dims);

// `dims` in the order of `permutation`, and the permutation that undoes it.
Dims Permuted(const Dims& dims, const std::vector<int64_t>& permutation);
std::vector<int64_t> Inverse(const std::vector<int64_t>& permutation);

// Strides of `tensor` seen as the larger `dims`: 0 where a dimension is new or was 1.
Dims ExpandedStrides(const StridedType& tensor, const Dims& dims);

// Strides of a sum over some dimensions of `dims`, kept as 1 or dropped, seen as all of `dims`:
// 0 along those.
Dims StridesOfSum(const StridedType& sum, const Dims& dims);

// Strides of a part of `tensor`: of a selection, which has fewer dimensions, those of the
// dimensions beside the axis; of a slice with a step along the axis, a multiple there.
// Empty `axis_and_step`: the tensor's own, or a selection that is contiguous.
Dims NarrowedStrides(const StridedType& tensor, const Dims& dims,
                     std::span<const int64_t> axis_and_step);

// Strides of a diagonal over two dimensions of `strides`, which comes last.
// REQUIRES: they are two.
Dims DiagonalStrides(Dims strides, int64_t a, int64_t b);
// Strides of windows of one dimension, which come last: ints are the dimension, size and step.
Dims WindowStrides(Dims strides, std::span<const int64_t> ints);

// Strides of what an elementwise kernel makes of `operands`, whose dimensions broadcast to
// `dims`: in the order in which the first of them lie in memory that say so, without gaps.
// Source: TensorIterator::reorder_dimensions, aten/src/ATen/TensorIterator.cpp, pytorch v2.6.0.
// O(operands × dims²).
Dims ElementwiseStrides(const Dims& dims, std::span<const StridedType* const> operands);

// empty_like(tensor), which keeps the order of dimensions.
Dims StridesLike(const StridedType& tensor);

// The same of dims that lie as a tensor with `strides` does; contiguous where a file's types
// contradict each other and the ranks differ.
Dims StridesAs(const Dims& dims, const Dims& strides);

// In which order the memory of pictures [N, C, H, W] and [N, C, D, H, W] is; all else is
// contiguous.
enum class MemoryFormat : uint8_t { kContiguous, kChannelsLast };

// x.suggest_memory_format(): channels last where strides say so.  Those of fewer than 4 dimensions
// never do.  Source: is_channels_last_strides_2d_s4 and _3d_s5 of c10/core/MemoryFormat.h,
// pytorch v2.11.0.
MemoryFormat SuggestedFormat(const StridedType& tensor);
// REQUIRES of both: 4 or 5 dimensions, where the format is not contiguous.
Dims StridesIn(MemoryFormat format, const Dims& dims);
// x.is_contiguous(memory_format=format)
bool IsContiguousIn(MemoryFormat format, const StridedType& tensor);

}  // namespace onnxfit
