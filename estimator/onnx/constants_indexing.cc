// Operators whose integers say where elements come from or go to.
#include <algorithm>
#include <array>

#include "estimator/base/index.h"
#include "estimator/onnx/constants.h"

namespace onnxfit {
namespace {

// Counted from the end where negative; nullopt where out of range.
std::optional<int64_t> FromFront(int64_t index, int64_t dim) {
  if (index < 0) index += dim;
  return index >= 0 && index < dim ? std::optional(index) : std::nullopt;
}

// For each element of the result, where it lies in the source.
using Places = std::vector<int64_t>;

template <typename T>
std::vector<T> At(const std::vector<T>& from, const Places& places) {
  std::vector<T> to;
  to.reserve(places.size());
  for (const int64_t place : places) to.push_back(from[static_cast<size_t>(place)]);
  return to;
}

std::vector<HostTensor> Picked(const HostTensor& in, Dims dims, const Places& places) {
  Dims stored = dims;
  return {WithElements(in, std::move(dims), std::move(stored),
                       [&](const auto& from) { return At(from, places); })};
}

int64_t Product(const Dims& dims, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t axis = begin; axis < end; ++axis) product *= dims[axis];
  return product;
}

// data[..., indices, ...] along one axis.
std::vector<HostTensor> Gather(const Call& call) {
  const HostTensor data = InFull(call.in(0));
  const HostTensor indices = InFull(call.in(1));
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), data.dims.size());
  if (axis >= data.dims.size() || indices.is_float()) return {};
  const int64_t outer = Product(data.dims, 0, axis);
  const int64_t inner = Product(data.dims, axis + 1, data.dims.size());
  const int64_t dim = data.dims[axis];
  Places places;
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t listed : indices.integers()) {
      const auto index = FromFront(listed, dim);
      if (!index.has_value()) return {};
      for (int64_t i = 0; i < inner; ++i) places.push_back((o * dim + *index) * inner + i);
    }
  }
  return Picked(data, OutputType(call).dims, places);
}

// One index for each element; the other coordinates are its own.  Empty where an index
// is out of range.
std::optional<Places> ElementPlaces(const HostTensor& indices, const Dims& dims, size_t axis) {
  if (indices.is_float() || axis >= dims.size() || indices.dims.size() != dims.size()) {
    return std::nullopt;
  }
  const Strides strides = RowMajor(dims);
  Places places;
  places.reserve(indices.integers().size());
  std::vector<int64_t> at(dims.size(), 0);
  for (const int64_t listed : indices.integers()) {
    const auto index = FromFront(listed, dims[axis]);
    if (!index.has_value()) return std::nullopt;
    int64_t place = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] >= dims[i] && i != axis) return std::nullopt;
      place += (i == axis ? *index : at[i]) * strides[i];
    }
    places.push_back(place);
    for (size_t i = at.size(); i-- > 0 && ++at[i] == indices.dims[i];) at[i] = 0;
  }
  return places;
}

std::vector<HostTensor> GatherElements(const Call& call) {
  const HostTensor data = InFull(call.in(0));
  const HostTensor indices = InFull(call.in(1));
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), data.dims.size());
  const auto places = ElementPlaces(indices, data.dims, axis);
  return places.has_value() ? Picked(data, indices.dims, *places) : std::vector<HostTensor>();
}

// The last axis of `indices` holds coordinates into the axes of `dims` after the first
// `batch` ones, which both share.  Gives where each slice of `width` elements starts.
struct Slices {
  Places starts;
  int64_t width = 1;
};

std::optional<Slices> SlicesOf(const HostTensor& indices, const Dims& dims, size_t batch) {
  if (indices.is_float() || indices.dims.size() <= batch) return std::nullopt;
  const auto depth = static_cast<size_t>(indices.dims.back());
  if (depth == 0 || batch + depth > dims.size()) return std::nullopt;
  if (!std::equal(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(batch),
                  indices.dims.begin())) {
    return std::nullopt;
  }
  const Strides strides = RowMajor(dims);
  const int64_t batch_size = Product(dims, batch, dims.size());
  const Integers& all = indices.integers();
  const size_t count = all.size() / depth;
  const size_t per_batch =
      static_cast<size_t>(Product(indices.dims, batch, indices.dims.size() - 1));
  Slices slices{{}, Product(dims, batch + depth, dims.size())};
  slices.starts.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    int64_t start = static_cast<int64_t>(i / per_batch) * batch_size;
    for (size_t k = 0; k < depth; ++k) {
      const auto index = FromFront(all[i * depth + k], dims[batch + k]);
      if (!index.has_value()) return std::nullopt;
      start += *index * strides[batch + k];
    }
    slices.starts.push_back(start);
  }
  return slices;
}

Places PlacesOf(const Slices& slices) {
  Places places;
  places.reserve(slices.starts.size() * Index(slices.width));
  for (const int64_t start : slices.starts) {
    for (int64_t i = 0; i < slices.width; ++i) places.push_back(start + i);
  }
  return places;
}

std::vector<HostTensor> GatherND(const Call& call) {
  const HostTensor data = InFull(call.in(0));
  const auto batch = static_cast<size_t>(IntAttribute(*call.node, "batch_dims", 0));
  const auto slices = SlicesOf(InFull(call.in(1)), data.dims, batch);
  if (!slices.has_value()) return {};
  return Picked(data, OutputType(call).dims, PlacesOf(*slices));
}

struct Replace {
  template <typename T>
  T operator()(T, T update) const {
    return update;
  }
};
struct AddTo {
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  double operator()(double a, double b) const { return a + b; }
};
struct MultiplyBy {
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  double operator()(double a, double b) const { return a * b; }
};
struct SmallerOf {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct LargerOf {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

template <typename Combine>
HostTensor Scattered(const HostTensor& data, const HostTensor& updates, const Places& places) {
  return WithElements(data, data.dims, data.dims, [&](auto elements) {
    const auto& from = std::get<decltype(elements)>(updates.elements->Get());
    for (size_t i = 0; i < places.size(); ++i) {
      auto& to = elements[static_cast<size_t>(places[i])];
      to = Combine()(to, from[i]);
    }
    return elements;
  });
}

struct ScatterRow {
  std::string_view reduction;
  HostTensor (*scatter)(const HostTensor&, const HostTensor&, const Places&);
};
constexpr ScatterRow kScatterRows[] = {
    {"none", Scattered<Replace>},  {"add", Scattered<AddTo>},    {"mul", Scattered<MultiplyBy>},
    {"min", Scattered<SmallerOf>}, {"max", Scattered<LargerOf>},
};

std::vector<HostTensor> ScatterTo(const Call& call, const HostTensor& data, const Places& places) {
  const HostTensor updates = InFull(call.in(2));
  if (updates.dtype != data.dtype) return {};
  if (Numel(updates.dims) != static_cast<int64_t>(places.size())) return {};
  const onnx::AttributeProto* given = FindAttribute(*call.node, "reduction");
  const std::string_view reduction = given == nullptr ? "none" : std::string_view(given->s());
  for (const ScatterRow& row : kScatterRows) {
    if (row.reduction == reduction) return {row.scatter(data, updates, places)};
  }
  return {};
}

std::vector<HostTensor> ScatterND(const Call& call) {
  const HostTensor data = InFull(call.in(0));
  const auto slices = SlicesOf(InFull(call.in(1)), data.dims, 0);
  if (!slices.has_value()) return {};
  return ScatterTo(call, data, PlacesOf(*slices));
}

std::vector<HostTensor> ScatterElements(const Call& call) {
  const HostTensor data = InFull(call.in(0));
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), data.dims.size());
  const auto places = ElementPlaces(InFull(call.in(1)), data.dims, axis);
  if (!places.has_value()) return {};
  return ScatterTo(call, data, *places);
}

std::vector<int64_t> NonzeroPlaces(const HostTensor& tensor) {
  std::vector<int64_t> places;
  std::visit(
      [&](const auto& elements) {
        for (size_t i = 0; i < elements.size(); ++i) {
          if (elements[i] != 0) places.push_back(static_cast<int64_t>(i));
        }
      },
      tensor.elements->Get());
  return places;
}

// [rank, count]: the coordinates of what is not zero, one row an axis.
std::vector<HostTensor> NonZero(const Call& call) {
  const HostTensor in = InFull(call.in(0));
  const std::vector<int64_t> places = NonzeroPlaces(in);
  const Strides strides = RowMajor(in.dims);
  Integers coordinates;
  for (size_t axis = 0; axis < in.dims.size(); ++axis) {
    for (const int64_t place : places) {
      coordinates.push_back(place / strides[axis] % in.dims[axis]);
    }
  }
  const Dims dims = {static_cast<int64_t>(in.dims.size()), static_cast<int64_t>(places.size())};
  return {MakeIntegers(DType::kInt64, dims, std::move(coordinates))};
}

// Elements (or slices along an axis) where the condition holds.
std::vector<HostTensor> Compress(const Call& call) {
  if (call.in(1).is_float()) return {};
  const HostTensor in = InFull(call.in(0));
  const Integers condition = InFull(call.in(1)).integers();
  const onnx::AttributeProto* given = FindAttribute(*call.node, "axis");
  const bool flat = given == nullptr;
  const size_t axis = flat ? 0 : AxisOf(given->i(), in.dims.size());
  if (!flat && axis >= in.dims.size()) return {};
  const int64_t outer = flat ? 1 : Product(in.dims, 0, axis);
  const int64_t dim = flat ? Numel(in.dims) : in.dims[axis];
  const int64_t inner = flat ? 1 : Product(in.dims, axis + 1, in.dims.size());
  if (static_cast<int64_t>(condition.size()) > dim) return {};
  Places places;
  for (int64_t o = 0; o < outer; ++o) {
    for (size_t k = 0; k < condition.size(); ++k) {
      if (condition[k] == 0) continue;
      const int64_t start = (o * dim + static_cast<int64_t>(k)) * inner;
      for (int64_t i = 0; i < inner; ++i) places.push_back(start + i);
    }
  }
  Dims dims = flat ? Dims{0} : in.dims;
  dims[axis] = std::count_if(condition.begin(), condition.end(), [](int64_t c) { return c != 0; });
  return Picked(in, std::move(dims), places);
}

// The place of the first (or last) best element along one axis.
template <typename Better, typename T>
Integers BestAlong(const std::vector<T>& from, const Dims& dims, size_t axis, bool last) {
  const int64_t step = RowMajor(dims)[axis];
  const int64_t block = step * dims[axis];
  Integers best;
  for (int64_t start = 0; start < static_cast<int64_t>(from.size()); ++start) {
    if (start % block >= step) continue;  // not the first along the axis
    int64_t at = 0;
    for (int64_t i = 1; i < dims[axis]; ++i) {
      const T& x = from[static_cast<size_t>(start + i * step)];
      const T& held = from[static_cast<size_t>(start + at * step)];
      if (Better()(x, held) || (last && x == held)) at = i;
    }
    best.push_back(at);
  }
  return best;
}

template <typename Better>
std::vector<HostTensor> ArgBest(const Call& call) {
  const HostTensor in = InFull(call.in(0));
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), in.dims.size());
  if (axis >= in.dims.size() || Numel(in.dims) == 0) return {};
  const bool last = IntAttribute(*call.node, "select_last_index", 0) != 0;
  Integers best =
      std::visit([&](const auto& from) { return BestAlong<Better>(from, in.dims, axis, last); },
                 in.elements->Get());
  return {MakeIntegers(DType::kInt64, OutputType(call).dims, std::move(best))};
}

// A new axis of `depth`; values[1] where the index is, values[0] elsewhere.
template <typename T>
std::vector<T> Hot(const Integers& indices, const std::vector<T>& values, int64_t depth,
                   int64_t inner) {
  std::vector<T> hot(indices.size() * static_cast<size_t>(depth), values.at(0));
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto index = FromFront(indices[i], depth);
    if (!index.has_value()) continue;
    const auto place = static_cast<int64_t>(i);
    const int64_t at = (place / inner * depth + *index) * inner + place % inner;
    hot[static_cast<size_t>(at)] = values.at(1);
  }
  return hot;
}

std::vector<HostTensor> OneHot(const Call& call) {
  const HostTensor indices = InFull(call.in(0));
  const HostTensor values = InFull(call.in(2));
  const Dims& dims = OutputType(call).dims;
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", -1), indices.dims.size() + 1);
  if (indices.is_float() || axis >= dims.size() || Numel(values.dims) != 2) return {};
  const int64_t inner = Product(dims, axis + 1, dims.size());
  return {WithElements(values, dims, dims, [&](const auto& pair) {
    return Hot(indices.integers(), pair, dims[axis], inner);
  })};
}

constexpr EvaluatorRow kIndexingRows[] = {
    {"Gather", Gather},
    {"GatherElements", GatherElements},
    {"GatherND", GatherND},
    {"ScatterND", ScatterND},
    {"ScatterElements", ScatterElements},
    {.op_type = "NonZero", .evaluate = NonZero, .finds_dims = true},
    {.op_type = "Compress", .evaluate = Compress, .finds_dims = true},
    {"ArgMax", ArgBest<std::greater<>>},
    {"ArgMin", ArgBest<std::less<>>},
    {"OneHot", OneHot},
};

}  // namespace

std::span<const EvaluatorRow> IndexingRows() { return kIndexingRows; }

}  // namespace onnxfit
