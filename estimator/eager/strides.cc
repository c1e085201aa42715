#include "estimator/eager/strides.h"

#include <algorithm>
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

bool IsContiguous(const Tensor& tensor) {
  if (Numel(tensor.dims) == 0) return true;
  int64_t stride = 1;
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    if (tensor.dims[i] == 1) continue;
    if (tensor.strides[i] != stride) return false;
    stride *= tensor.dims[i];
  }
  return true;
}

bool IsDense(const Tensor& tensor) {
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

ViewStrides StridesOfView(const Tensor& tensor, const Dims& dims) {
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

Dims ExpandedStrides(const Tensor& tensor, const Dims& dims) {
  const size_t added = dims.size() - tensor.dims.size();
  Dims strides(dims.size(), 0);
  for (size_t i = added; i < dims.size(); ++i) {
    if (tensor.dims[i - added] == dims[i]) strides[i] = tensor.strides[i - added];
  }
  return strides;
}

Dims NarrowedStrides(const Tensor& tensor, const Dims& dims) {
  if (dims.size() == tensor.dims.size()) return tensor.strides;
  return ContiguousStrides(dims);
}

}  // namespace onnxfit
