#include "estimator/operators/strides.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {

Dims ContiguousStrides(const Dims& dims) {
  if (Numel(dims) == 0) return Dims(dims.size(), 0);  // the other dimensions may be huge
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

StridedType Contiguous(TensorType type) {
  Dims strides = ContiguousStrides(type.dims);
  return {std::move(type), std::move(strides)};
}

bool IsContiguous(const StridedType& tensor) {
  if (Numel(tensor.dims) == 0) return true;
  int64_t stride = 1;
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    if (tensor.dims[i] == 1) continue;
    if (tensor.strides[i] != stride) return false;
    stride *= tensor.dims[i];
  }
  return true;
}

bool IsDense(const StridedType& tensor) {
  if (Numel(tensor.dims) == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> by_stride;
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] != 1) by_stride.emplace_back(tensor.strides[i], tensor.dims[i]);
  }
  std::sort(by_stride.begin(), by_stride.end());
  int64_t expected = 1;
  for (const auto& [stride, dim] : by_stride) {
    if (stride != expected) return false;
    expected *= dim;
  }
  return true;
}

Dims UnsqueezedStrides(const StridedType& tensor, const Dims& dims) {
  const Dims& own = tensor.dims;
  if (own.empty() || dims.size() <= own.size()) return {};
  const auto end = dims.end() - std::ssize(own);
  const bool is_in_front = std::all_of(dims.begin(), end, [](int64_t n) { return n == 1; });
  if (!is_in_front || !std::equal(own.begin(), own.end(), end)) return {};
  Dims strides(dims.size() - own.size(), own[0] * tensor.strides[0]);
  strides.insert(strides.end(), tensor.strides.begin(), tensor.strides.end());
  return strides;
}

ViewStrides StridesOfView(const StridedType& tensor, const Dims& dims) {
  if (Numel(tensor.dims) == 0 || tensor.dims.empty()) return {true, ContiguousStrides(dims)};
  ViewStrides view = {.possible = false, .strides = Dims(dims.size())};
  auto at = static_cast<int64_t>(dims.size()) - 1;  // the dimension of the view to fill next
  int64_t chunk_stride = tensor.strides.back();
  int64_t tensor_numel = 1;
  int64_t view_numel = 1;
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    tensor_numel *= tensor.dims[i];
    const bool chunk_ends =
        i == 0 || (tensor.dims[i - 1] != 1 && tensor.strides[i - 1] != tensor_numel * chunk_stride);
    if (!chunk_ends) continue;
    while (at >= 0 && (view_numel < tensor_numel || dims[Index(at)] == 1)) {
      view.strides[Index(at)] = view_numel * chunk_stride;
      view_numel *= dims[Index(at)];
      --at;
    }
    if (view_numel != tensor_numel) return view;
    if (i == 0) break;
    chunk_stride = tensor.strides[i - 1];
    tensor_numel = 1;
    view_numel = 1;
  }
  view.possible = at == -1;
  return view;
}

Dims Permuted(const Dims& dims, const std::vector<int64_t>& permutation) {
  Dims result;
  for (const int64_t axis : permutation) result.push_back(dims[Index(axis)]);
  return result;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[Index(permutation[i])] = static_cast<int64_t>(i);
  }
  return inverse;
}

Dims ExpandedStrides(const StridedType& tensor, const Dims& dims) {
  const size_t added = dims.size() - tensor.dims.size();
  Dims strides(dims.size(), 0);
  for (size_t i = added; i < dims.size(); ++i) {
    if (tensor.dims[i - added] == dims[i]) strides[i] = tensor.strides[i - added];
  }
  return strides;
}

Dims StridesOfSum(const StridedType& sum, const Dims& dims) {
  Dims strides(dims.size(), 0);
  const bool keeps_dims = sum.dims.size() == dims.size();
  size_t next = 0;  // of the sum's
  for (size_t i = 0; i < dims.size() && next < sum.dims.size(); ++i) {
    if (sum.dims[next] == dims[i]) {
      strides[i] = sum.strides[next++];
    } else if (keeps_dims) {
      ++next;
    }
  }
  return strides;
}

Dims NarrowedStrides(const StridedType& tensor, const Dims& dims,
                     std::span<const int64_t> axis_and_step) {
  Dims strides = tensor.strides;
  if (axis_and_step.empty())
    return dims.size() == strides.size() ? strides : ContiguousStrides(dims);
  const size_t axis = Index(axis_and_step[0]);
  if (dims.size() < strides.size()) {
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  } else if (axis_and_step.size() > 1 && dims[axis] > 1) {
    strides[axis] *= axis_and_step[1];
  }
  return strides;
}

Dims DiagonalStrides(Dims strides, int64_t a, int64_t b) {
  const int64_t along = strides[Index(a)] + strides[Index(b)];
  strides.erase(strides.begin() + std::max(a, b));
  strides.erase(strides.begin() + std::min(a, b));
  strides.push_back(along);
  return strides;
}

Dims WindowStrides(Dims strides, std::span<const int64_t> ints) {
  if (strides.empty()) return {1};
  int64_t& along = strides[Index(ints[0])];
  const int64_t within = along;
  along *= ints[2];
  strides.push_back(within);
  return strides;
}

namespace {

// Strides of `operand` broadcast to so many dimensions.
Dims BroadcastStrides(const StridedType& operand, const Dims& dims) {
  Dims strides(dims.size(), 0);
  const size_t added = dims.size() - operand.dims.size();
  for (size_t i = added; i < dims.size(); ++i) {
    const bool is_broadcast = operand.dims[i - added] == 1 && dims[i] != 1;
    strides[i] = is_broadcast ? 0 : operand.strides[i - added];
  }
  return strides;
}

// should_swap: above 0 where dimension `a`, before `b`, has to come behind it; below 0 where
// it stands rightly; 0 where no operand says.  The fastest dimension comes first.
int CompareDims(size_t a, size_t b, const Dims& dims, const std::vector<Dims>& operands) {
  for (const Dims& strides : operands) {
    if (strides[a] == 0 || strides[b] == 0) continue;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    if (dims[a] > dims[b]) return 1;
  }
  return 0;
}

void SortFastestFirst(std::vector<size_t>& order, const Dims& dims,
                      const std::vector<Dims>& operands) {
  for (size_t i = 1; i < order.size(); ++i) {
    size_t place = i;
    for (size_t before = i; before-- > 0;) {
      const int comparison = CompareDims(order[before], order[place], dims, operands);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[before], order[place]);
      place = before;
    }
  }
}

}  // namespace

Dims ElementwiseStrides(const Dims& dims, std::span<const StridedType* const> operands) {
  if (std::all_of(operands.begin(), operands.end(), [&](const StridedType* operand) {
        return operand->dims == dims && IsContiguous(*operand);
      })) {
    return ContiguousStrides(dims);
  }
  std::vector<Dims> strides;
  for (const StridedType* operand : operands) strides.push_back(BroadcastStrides(*operand, dims));
  std::vector<size_t> order(dims.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  SortFastestFirst(order, dims, strides);
  Dims result(dims.size());
  int64_t stride = 1;
  for (const size_t dim : order) {
    result[dim] = stride;
    stride *= std::max<int64_t>(dims[dim], 1);
  }
  return result;
}

Dims StridesLike(const StridedType& tensor) {
  if (IsDense(tensor)) return tensor.strides;
  const StridedType* const operands[] = {&tensor};
  return ElementwiseStrides(tensor.dims, operands);
}

Dims StridesAs(const Dims& dims, const Dims& strides) {
  if (strides.size() != dims.size()) return ContiguousStrides(dims);
  StridedType lying;  // by assignment: g++ 12 warns of a member that braces have set
  lying.dims = dims;
  lying.strides = strides;
  return StridesLike(lying);
}

// --- Memory formats ------------------------------------------------------------

namespace {

// Dimensions of pictures with channels last, from the fastest on.
std::vector<size_t> ChannelsFirst(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::rotate(order.begin(), order.end() - 2, order.end() - 1);  // dimension 1 to the front
  return order;
}

}  // namespace

MemoryFormat SuggestedFormat(const StridedType& tensor) {
  const size_t rank = tensor.dims.size();
  if ((rank != 4 && rank != 5) || tensor.strides[1] == 0) return MemoryFormat::kContiguous;
  int64_t least = 0;
  for (const size_t dim : ChannelsFirst(rank)) {
    const bool is_ambiguous = dim == 0 && least == tensor.strides[1];
    if (tensor.dims[dim] == 0 || tensor.strides[dim] < least || is_ambiguous) {
      return MemoryFormat::kContiguous;
    }
    least = tensor.strides[dim] * tensor.dims[dim];
  }
  return MemoryFormat::kChannelsLast;
}

Dims StridesIn(MemoryFormat format, const Dims& dims) {
  if (format == MemoryFormat::kContiguous || Numel(dims) == 0) return ContiguousStrides(dims);
  Dims strides(dims.size());
  int64_t stride = 1;
  for (const size_t dim : ChannelsFirst(dims.size())) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(dims[dim], 1);
  }
  return strides;
}

bool IsContiguousIn(MemoryFormat format, const StridedType& tensor) {
  if (format == MemoryFormat::kContiguous) return IsContiguous(tensor);
  const Dims strides = StridesIn(format, tensor.dims);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.dims[i] != 1 && tensor.strides[i] != strides[i]) return false;
  }
  return true;
}

}  // namespace onnxfit
