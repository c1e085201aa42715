// Operators that make, move or reshape elements without computing on them.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "estimator/base/index.h"
#include "estimator/onnx/constants.h"

namespace onnxfit {
namespace {

HostTensor WithShape(const HostTensor& tensor, Dims dims, Dims stored) {
  return {tensor.dtype, std::move(dims), std::move(stored), tensor.elements};
}

constexpr size_t kNoInput = SIZE_MAX;

// A list of integers from input `input`, or else from the attribute `name` of older
// opsets; empty where neither is there.
std::vector<int64_t> IntsOf(const Call& call, size_t input, std::string_view name) {
  if (call.has(input) && !call.in(input).is_float()) return InFull(call.in(input)).integers();
  const onnx::AttributeProto* list = FindAttribute(*call.node, name);
  if (list == nullptr) return {};
  return {list->ints().begin(), list->ints().end()};
}

// --- Made from types and attributes ---------------------------------------------

std::vector<HostTensor> Shape(const Call& call) {
  const Dims& dims = call.input_types[0].dims;
  const auto rank = static_cast<int64_t>(dims.size());
  const auto place = [&](std::string_view name, int64_t absent) {
    const int64_t at = IntAttribute(*call.node, name, absent);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = place("start", 0);
  const int64_t end = std::max(start, place("end", rank));
  return {MakeIntegers(DType::kInt64, {end - start}, {dims.begin() + start, dims.begin() + end})};
}

std::vector<HostTensor> Size(const Call& call) {
  return {MakeIntegers(DType::kInt64, {}, {Numel(call.input_types[0].dims)})};
}

using ConstantMaker = std::optional<HostTensor> (*)(const onnx::AttributeProto&);

std::optional<HostTensor> FromInt(const onnx::AttributeProto& attribute) {
  return MakeIntegers(DType::kInt64, {}, {attribute.i()});
}
std::optional<HostTensor> FromInts(const onnx::AttributeProto& attribute) {
  const auto& ints = attribute.ints();
  return MakeIntegers(DType::kInt64, {ints.size()}, {ints.begin(), ints.end()});
}
std::optional<HostTensor> FromFloat(const onnx::AttributeProto& attribute) {
  return MakeFloats(DType::kFloat32, {}, {static_cast<double>(attribute.f())});
}
std::optional<HostTensor> FromFloats(const onnx::AttributeProto& attribute) {
  const auto& floats = attribute.floats();
  if (floats.size() > kMaxFloats) return std::nullopt;
  return MakeFloats(DType::kFloat32, {floats.size()}, {floats.begin(), floats.end()});
}

struct ConstantRow {
  std::string_view attribute;
  ConstantMaker make;
};
constexpr ConstantRow kConstantRows[] = {
    {"value_int", FromInt},
    {"value_ints", FromInts},
    {"value_float", FromFloat},
    {"value_floats", FromFloats},
};

std::vector<HostTensor> Constant(const Call& call) {
  if (const onnx::AttributeProto* value = FindAttribute(*call.node, "value")) {
    const auto kept = FromProto(value->t(), call.owner);
    return kept.has_value() ? std::vector{*kept} : std::vector<HostTensor>();
  }
  for (const ConstantRow& row : kConstantRows) {
    const onnx::AttributeProto* attribute = FindAttribute(*call.node, row.attribute);
    if (attribute == nullptr) continue;
    if (auto made = row.make(*attribute)) return {*std::move(made)};
  }
  return {};
}

std::optional<Dims> StoredOnce(const Call& call) {
  return ExpandedStored({}, {}, OutputType(call).dims);
}

std::vector<HostTensor> ConstantOfShape(const Call& call) {
  HostTensor value = MakeFloats(DType::kFloat32, {}, {0.0});
  if (const onnx::AttributeProto* attribute = FindAttribute(*call.node, "value")) {
    const auto given = FromProto(attribute->t(), call.owner);
    if (!given.has_value() || Numel(given->dims) != 1) return {};
    value = WithShape(*given, {}, {});
  }
  value.dims = OutputType(call).dims;
  return {StoredAs(value, *StoredOnce(call))};
}

template <typename T>
std::vector<T> Ramp(const std::vector<T>& start, const std::vector<T>& limit,
                    const std::vector<T>& step, int64_t most) {
  const double exact = (static_cast<double>(limit.at(0)) - static_cast<double>(start.at(0))) /
                       static_cast<double>(step.at(0));
  const double count =
      std::isnan(exact) ? 0 : std::clamp(std::ceil(exact), 0.0, static_cast<double>(most) + 1.0);
  std::vector<T> ramp;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    ramp.push_back(start[0] + static_cast<T>(i) * step[0]);
  }
  return ramp;
}

std::vector<HostTensor> Range(const Call& call) {
  const DType dtype = OutputType(call).dtype;
  for (size_t i = 0; i < 3; ++i) {
    if (call.in(i).dtype != dtype || Numel(call.in(i).stored) != 1) return {};
  }
  if (IsFloat(dtype)) {
    Floats ramp = Ramp(call.in(0).floats(), call.in(1).floats(), call.in(2).floats(), kMaxFloats);
    const auto length = static_cast<int64_t>(ramp.size());
    if (length > kMaxFloats) return {};
    return {MakeFloats(dtype, {length}, std::move(ramp))};
  }
  Integers ramp =
      Ramp(call.in(0).integers(), call.in(1).integers(), call.in(2).integers(), kMaxIntegers);
  const auto length = static_cast<int64_t>(ramp.size());
  if (length > kMaxIntegers) return {};
  return {MakeIntegers(dtype, {length}, std::move(ramp))};
}

// --- The same elements under other dimensions -----------------------------------

std::vector<HostTensor> Identity(const Call& call) { return {call.in(0)}; }

std::optional<Dims> ExpandStored(const Call& call) {
  return ExpandedStored(call.in(0).dims, call.in(0).stored, OutputType(call).dims);
}

std::vector<HostTensor> Expand(const Call& call) {
  HostTensor out = StoredAs(call.in(0), *ExpandStored(call));
  out.dims = OutputType(call).dims;
  return {out};
}

std::optional<Nonzeros> SameNonzeros(const Call& call, int64_t size) {
  return SpreadNonzeros(call, 0, size);
}

// Where the new dimensions are the old ones with ones put in or taken out, what repeats
// goes on to repeat.  Otherwise all elements are stored.
Dims ReshapedStored(const HostTensor& in, const Dims& dims) {
  if (in.stored == in.dims) return dims;
  return ViewedStored(in.dims, in.stored, dims).value_or(dims);
}

std::optional<Dims> ReshapeStored(const Call& call) {
  const Dims& dims = OutputType(call).dims;
  if (Numel(dims) != Numel(call.in(0).dims)) return std::nullopt;
  return ReshapedStored(call.in(0), dims);
}

// Also Squeeze, Unsqueeze and Flatten: the new dimensions are inferred.
std::vector<HostTensor> Reshape(const Call& call) {
  const Dims& dims = OutputType(call).dims;
  Dims stored = ReshapedStored(call.in(0), dims);
  const bool repeats = stored != dims;
  const HostTensor in = repeats ? call.in(0) : InFull(call.in(0));
  return {WithShape(in, dims, std::move(stored))};
}

// --- Elements in another order --------------------------------------------------

std::vector<size_t> Permutation(const Call& call) {
  const size_t rank = call.in(0).dims.size();
  std::vector<size_t> axes;
  for (const int64_t axis : IntsOf(call, kNoInput, "perm")) axes.push_back(AxisOf(axis, rank));
  for (size_t i = rank; axes.size() < rank && i-- > 0;) axes.push_back(i);
  return axes;
}

template <typename T>
std::vector<T> Permuted(const std::vector<T>& values, const std::vector<size_t>& axes) {
  std::vector<T> permuted;
  for (const size_t axis : axes) permuted.push_back(values.at(axis));
  return permuted;
}

std::optional<Dims> TransposeStored(const Call& call) {
  const std::vector<size_t> axes = Permutation(call);
  std::vector<size_t> each(call.in(0).dims.size());
  std::iota(each.begin(), each.end(), size_t{0});
  if (!std::is_permutation(axes.begin(), axes.end(), each.begin(), each.end())) return std::nullopt;
  return Permuted(call.in(0).stored, axes);
}

std::vector<HostTensor> Transpose(const Call& call) {
  const HostTensor& in = call.in(0);
  const std::vector<size_t> axes = Permutation(call);
  const Dims stored = Permuted(in.stored, axes);
  const Strides strides = Permuted(RowMajor(in.stored), axes);
  return {WithElements(in, Permuted(in.dims, axes), stored,
                       [&](const auto& from) { return Gathered(from, stored, strides); })};
}

// What a Slice keeps of each axis.
struct Window {
  Dims dims;
  std::vector<int64_t> starts;
  std::vector<int64_t> steps;
};

Window WholeOf(const Dims& dims) {
  return {dims, std::vector<int64_t>(dims.size(), 0), std::vector<int64_t>(dims.size(), 1)};
}

// Sets one axis as ONNX clamps it: to [0, dim] going up, to [-1, dim - 1] going down.
void Narrow(Window& window, size_t axis, int64_t start, int64_t end, int64_t step) {
  const int64_t dim = window.dims[axis];
  const auto clamped = [&](int64_t at) {
    if (at < 0) at = at < -dim ? -1 : at + dim;
    return step > 0 ? std::clamp<int64_t>(at, 0, dim) : std::clamp<int64_t>(at, -1, dim - 1);
  };
  start = clamped(start);
  end = clamped(end);
  // As unsigned, |step| fits also where step is the lowest of all.
  const int64_t distance = step > 0 ? end - start : start - end;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const auto length = static_cast<uint64_t>(std::max<int64_t>(distance, 0));
  window.dims[axis] = static_cast<int64_t>((length + stride - 1) / stride);
  window.starts[axis] = start;
  window.steps[axis] = window.dims[axis] > 1 ? step : 1;
}

// Starts, ends, axes, steps: inputs from opset 10 on, attributes before.
std::optional<Window> SliceWindow(const Call& call) {
  Window window = WholeOf(call.in(0).dims);
  const std::vector<int64_t> starts = IntsOf(call, 1, "starts");
  const std::vector<int64_t> ends = IntsOf(call, 2, "ends");
  const std::vector<int64_t> axes = IntsOf(call, 3, "axes");
  const std::vector<int64_t> steps = IntsOf(call, 4, "steps");
  if (ends.size() != starts.size()) return std::nullopt;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t step = i < steps.size() ? steps[i] : 1;
    const size_t axis =
        i < axes.size() ? AxisOf(axes[i], window.dims.size()) : (axes.empty() ? i : SIZE_MAX);
    if (axis >= window.dims.size() || step == 0) return std::nullopt;
    Narrow(window, axis, starts[i], ends[i], step);
  }
  return window;
}

Dims WindowStored(const Dims& stored, const Dims& dims, const Dims& window) {
  Dims kept = window;
  for (size_t axis = 0; axis < kept.size(); ++axis) {
    if (stored[axis] == 1 && dims[axis] != 1) kept[axis] = std::min<int64_t>(1, kept[axis]);
  }
  return kept;
}

std::optional<Dims> SliceStored(const Call& call) {
  const std::optional<Window> window = SliceWindow(call);
  if (!window.has_value() || window->dims != OutputType(call).dims) return std::nullopt;
  return WindowStored(call.in(0).stored, call.in(0).dims, window->dims);
}

HostTensor Windowed(const HostTensor& in, const Window& window) {
  const Dims stored = WindowStored(in.stored, in.dims, window.dims);
  Strides strides = RowMajor(in.stored);
  int64_t start = 0;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    if (in.stored[axis] == 1) continue;
    start += window.starts[axis] * strides[axis];
    strides[axis] *= window.steps[axis];
  }
  return WithElements(in, window.dims, stored,
                      [&](const auto& from) { return Gathered(from, stored, strides, start); });
}

std::vector<HostTensor> Slice(const Call& call) {
  return {Windowed(call.in(0), *SliceWindow(call))};
}

// The sizes are inferred, so that attribute, input and num_outputs are alike.
std::vector<HostTensor> Split(const Call& call) {
  const HostTensor& in = call.in(0);
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), in.dims.size());
  if (axis >= in.dims.size()) return {};
  std::vector<HostTensor> parts;
  Window window = WholeOf(in.dims);
  int64_t start = 0;
  for (const TensorType& type : call.output_types) {
    const int64_t length = type.dims.size() == in.dims.size() ? type.dims[axis] : -1;
    if (length < 0 || start + length > in.dims[axis]) return {};
    window.dims[axis] = length;
    window.starts[axis] = start;
    parts.push_back(Windowed(in, window));
    start += length;
  }
  return parts;
}

// --- Several tensors in one -----------------------------------------------------

bool SameKind(const Call& call) {
  return std::all_of(call.inputs.begin(), call.inputs.end(), [&](const auto& input) {
    return input.has_value() && input->dtype == call.in(0).dtype &&
           input->dims.size() == call.in(0).dims.size();
  });
}

// Stored once along an axis where all inputs are; in full along the one that grows.
Dims ConcatStoredOf(const HostTensor& in, const Call& call, size_t axis) {
  Dims stored(in.dims.size(), 1);
  for (size_t i = 0; i < stored.size(); ++i) {
    for (const auto& input : call.inputs) {
      if (i == axis || input->stored[i] != 1) stored[i] = in.dims[i];
    }
  }
  return stored;
}

std::vector<HostTensor> Concat(const Call& call) {
  const size_t rank = call.in(0).dims.size();
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 1), rank);
  if (!SameKind(call) || axis >= rank) return {};
  std::vector<HostTensor> parts;
  for (const auto& input : call.inputs) {
    parts.push_back(StoredAs(*input, ConcatStoredOf(*input, call, axis)));
  }
  Dims stored = parts[0].stored;
  stored[axis] = OutputType(call).dims[axis];
  int64_t outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= stored[i];
  const auto join = [&](auto joined) {
    using Vector = decltype(joined);
    std::vector<std::span<const typename Vector::value_type>> all;
    for (const HostTensor& part : parts) {
      all.emplace_back(std::get<Vector>(part.elements->Get()));
    }
    joined.clear();
    joined.reserve(Index(Numel(stored)));
    for (int64_t row = 0; row < outer; ++row) {
      for (const auto& from : all) {
        const size_t length = from.size() / Index(outer);
        const auto added = from.subspan(Index(row) * length, length);
        if (length == 1) joined.push_back(added[0]);
        if (length != 1) joined.insert(joined.end(), added.begin(), added.end());
      }
    }
    return joined;
  };
  return {WithElements(parts[0], OutputType(call).dims, stored, join)};
}

// Reads each axis as (repeat, dim) with a stride of 0 for the repeats.
std::vector<HostTensor> Tile(const Call& call) {
  const HostTensor in = InFull(call.in(0));
  const Integers repeats = IntsOf(call, 1, "repeats");
  if (repeats.size() != in.dims.size()) return {};
  const Strides own = RowMajor(in.dims);
  Dims loop;
  Strides strides;
  for (size_t axis = 0; axis < in.dims.size(); ++axis) {
    loop.insert(loop.end(), {std::max<int64_t>(repeats[axis], 0), in.dims[axis]});
    strides.insert(strides.end(), {0, own[axis]});
  }
  const Dims& dims = OutputType(call).dims;
  return {WithElements(in, dims, dims,
                       [&](const auto& from) { return Gathered(from, loop, strides); })};
}

// Elements on one side of the k-th diagonal stay, the others become 0.
std::vector<HostTensor> Trilu(const Call& call) {
  const HostTensor in = InFull(call.in(0));
  if (in.dims.size() < 2) return {};
  if (call.has(1) && (call.in(1).is_float() || Numel(call.in(1).dims) != 1)) return {};
  const int64_t k = call.has(1) ? call.in(1).integers()[0] : 0;
  const bool upper = IntAttribute(*call.node, "upper", 1) != 0;
  const int64_t rows = in.dims[in.dims.size() - 2];
  const int64_t columns = in.dims.back();
  return {WithElements(in, in.dims, in.dims, [&](auto elements) {
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / columns % rows;
      const int64_t diagonal = static_cast<int64_t>(i) % columns - row;
      if (upper ? diagonal < k : diagonal > k) elements[i] = 0;
    }
    return elements;
  })};
}

constexpr EvaluatorRow kMovementRows[] = {
    {.op_type = "Shape", .evaluate = Shape, .needs_values = false},
    {.op_type = "Size", .evaluate = Size, .needs_values = false},
    {"Constant", Constant},
    {"ConstantOfShape", ConstantOfShape, StoredOnce},
    {.op_type = "Range", .evaluate = Range, .finds_dims = true},

    {"Identity", Identity, FirstStored, true, false, SameNonzeros},
    {"Expand", Expand, ExpandStored, true, false, SameNonzeros},
    {"Reshape", Reshape, ReshapeStored, true, false, SameNonzeros},
    {"Flatten", Reshape, ReshapeStored},
    {"Squeeze", Reshape, ReshapeStored, true, false, SameNonzeros},
    {"Unsqueeze", Reshape, ReshapeStored, true, false, SameNonzeros},

    {"Transpose", Transpose, TransposeStored},
    {"Slice", Slice, SliceStored},
    {"Split", Split},
    {"Concat", Concat},
    {"Tile", Tile},
    {"Trilu", Trilu},
};

}  // namespace

std::span<const EvaluatorRow> MovementRows() { return kMovementRows; }

}  // namespace onnxfit
