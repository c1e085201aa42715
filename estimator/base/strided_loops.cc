#include "estimator/base/strided_loops.h"

#include <algorithm>
#include <iterator>

namespace onnxfit {
namespace {

Dims WithoutOnes(const Dims& dims) {
  Dims rest;
  std::ranges::copy_if(dims, std::back_inserter(rest), [](int64_t dim) { return dim != 1; });
  return rest;
}

}  // namespace

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

bool BroadcastsTo(const Dims& stored, const Dims& dims) {
  if (stored.size() > dims.size()) return false;
  const size_t added = dims.size() - stored.size();
  for (size_t axis = 0; axis < stored.size(); ++axis) {
    if (stored[axis] != 1 && stored[axis] != dims[axis + added]) return false;
  }
  return true;
}

std::optional<Dims> ViewedStored(const Dims& dims, const Dims& stored, const Dims& to) {
  if (WithoutOnes(dims) != WithoutOnes(to)) return std::nullopt;
  Dims viewed = to;
  size_t from = 0;
  for (int64_t& dim : viewed) {
    if (dim == 1) continue;
    while (dims[from] == 1) ++from;
    dim = stored[from++];
  }
  return viewed;
}

std::optional<Dims> ExpandedStored(const Dims& dims, const Dims& stored, const Dims& to) {
  if (!BroadcastsTo(dims, to)) return std::nullopt;
  Dims expanded(to.size(), 1);
  const size_t added = to.size() - dims.size();
  for (size_t axis = 0; axis < to.size(); ++axis) {
    const bool repeats = axis < added || stored[axis - added] == 1;
    if (!repeats || to[axis] == 0) expanded[axis] = to[axis];
  }
  return expanded;
}

}  // namespace onnxfit
