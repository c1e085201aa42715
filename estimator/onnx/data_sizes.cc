#include "estimator/onnx/data_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// --- The most that a size can be ------------------------------------------------

using Most = std::optional<int64_t>;

Most SizeAt(const Call& call, size_t input, int64_t axis) {
  if (input >= call.input_types.size()) return std::nullopt;
  const Dims& dims = call.input_types[input].dims;
  const size_t place = AxisOf(axis, dims.size());
  return place < dims.size() ? Most(dims[place]) : std::nullopt;
}

Most AllOf(const Call& call, size_t input) {
  return input < call.input_types.size() ? Most(Numel(call.input_types[input].dims)) : std::nullopt;
}

Most SameAxis(const Call& call, size_t /*output*/, int axis) { return SizeAt(call, 0, axis); }

// [rank, places]
Most OfNonZero(const Call& call, size_t /*output*/, int axis) {
  return axis == 1 ? AllOf(call, 0) : std::nullopt;
}

// Along its axis, or of all elements in a row.
Most OfChosen(const Call& call, size_t /*output*/, int /*axis*/) {
  const onnx::AttributeProto* axis = FindAttribute(*call.node, "axis");
  return axis == nullptr ? AllOf(call, 0) : SizeAt(call, 0, axis->i());
}

Most OfUnique(const Call& call, size_t output, int axis) {
  const onnx::AttributeProto* along = FindAttribute(*call.node, "axis");
  if (output > 0 || along == nullptr) return OfChosen(call, output, axis);
  return SizeAt(call, 0, axis);
}

// Boxes [N, boxes, 4], scores [N, classes, boxes], how many of a class: [chosen, 3].
Most OfSuppression(const Call& call, size_t /*output*/, int /*axis*/) {
  const Most samples = SizeAt(call, 1, 0);
  const Most classes = SizeAt(call, 1, 1);
  Most boxes = SizeAt(call, 1, 2);
  if (!samples || !classes || !boxes) return std::nullopt;
  const bool is_known = call.has(2) && !call.in(2).is_float() && Numel(call.in(2).stored) == 1;
  if (is_known) boxes = std::min(*boxes, std::max<int64_t>(call.in(2).integers()[0], 0));
  return CheckedMul(CheckedMul(*samples, *classes), *boxes);
}

struct MostRow {
  std::string_view op_type;
  Most (*most)(const Call& call, size_t output, int axis);
};
constexpr MostRow kMostRows[] = {
    {"NonZero", OfNonZero}, {"Compress", OfChosen},
    {"Unique", OfUnique},   {"NonMaxSuppression", OfSuppression},
    {"TopK", SameAxis},     {"Slice", SameAxis},
};

// --- Sizes that stay ------------------------------------------------------------

// Below opset 10 an attribute; else an input, which may be left out.
std::optional<std::vector<int64_t>> AxesOfSlice(const Call& call) {
  constexpr int64_t kMostAxes = 64;
  constexpr size_t kAxes = 3;
  if (call.has(kAxes)) {
    if (call.in(kAxes).is_float() || !HasUpTo(call.in(kAxes), kMostAxes)) return std::nullopt;
    return InFull(call.in(kAxes)).integers();
  }
  const bool are_left_out = call.node->input_size() <= static_cast<int>(kAxes);
  const Most starts = SizeAt(call, 1, 0);
  if (!are_left_out || !starts || *starts > kMostAxes) return std::nullopt;
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < *starts; ++axis) axes.push_back(axis);
  return axes;
}

Most StaysBySlice(const Call& call, int axis) {
  const auto axes = AxesOfSlice(call);
  if (!axes) return std::nullopt;
  const size_t rank = call.input_types[0].dims.size();
  const bool is_cut = std::ranges::any_of(
      *axes, [&](int64_t cut) { return AxisOf(cut, rank) == static_cast<size_t>(axis); });
  return is_cut ? std::nullopt : SizeAt(call, 0, axis);
}

template <int kAbsent>
Most StaysByAxis(const Call& call, int axis) {
  const onnx::AttributeProto* written = FindAttribute(*call.node, "axis");
  if (written == nullptr && kAbsent == 0) return std::nullopt;
  const size_t rank = call.input_types[0].dims.size();
  const size_t along = AxisOf(written == nullptr ? kAbsent : written->i(), rank);
  return along == static_cast<size_t>(axis) ? std::nullopt : SizeAt(call, 0, axis);
}

struct StayRow {
  std::string_view op_type;
  Most (*stays)(const Call& call, int axis);
};
constexpr StayRow kStayRows[] = {
    {"Slice", StaysBySlice},
    {"TopK", StaysByAxis<-1>},
    {"Compress", StaysByAxis<0>},
};

// --- Ranks ----------------------------------------------------------------------

std::optional<int> OfFirst(const Call& call) {
  return static_cast<int>(call.input_types[0].dims.size());
}

// One dimension for each element of a list.
template <size_t kInput>
std::optional<int> OfList(const Call& call) {
  constexpr int64_t kMostDims = 64;
  const Most length = SizeAt(call, kInput, 0);
  return length && *length <= kMostDims ? std::optional(static_cast<int>(*length)) : std::nullopt;
}

std::optional<int> OfExpand(const Call& call) {
  const std::optional<int> list = OfList<1>(call);
  return list ? std::optional(std::max(*list, *OfFirst(call))) : std::nullopt;
}

std::optional<int> OfCompress(const Call& call) {
  return FindAttribute(*call.node, "axis") == nullptr ? std::optional(1) : OfFirst(call);
}

std::optional<int> OfRow(const Call& /*call*/) { return 1; }

struct RankRow {
  std::string_view op_type;
  std::optional<int> (*rank)(const Call& call);
};
constexpr RankRow kRankRows[] = {
    {"Reshape", OfList<1>},     {"ConstantOfShape", OfList<0>},
    {"Expand", OfExpand},       {"Range", OfRow},
    {"Resize", OfFirst},        {"Upsample", OfFirst},
    {"Slice", OfFirst},         {"Tile", OfFirst},
    {"Pad", OfFirst},           {"TopK", OfFirst},
    {"Compress", OfCompress},   {"AffineGrid", OfList<1>},
    {"CenterCropPad", OfFirst},
};

}  // namespace

std::string NameOfSize(std::string_view value, int axis, int open) {
  return open == 1 ? std::string(value) : fmt::format("{}.{}", value, axis);
}

std::optional<TensorType> OpenTypeOf(const Call& call, size_t output) {
  if (output > 0 || call.input_types.empty()) return std::nullopt;
  // Below opset 11 without inference: sample, class and place of each box.
  if (call.node->op_type() == "NonMaxSuppression") return TensorType{DType::kInt64, {-1, 3}};
  const auto* const row = std::ranges::find(kRankRows, call.node->op_type(), &RankRow::op_type);
  const std::optional<int> rank = row == std::end(kRankRows) ? std::nullopt : row->rank(call);
  if (!rank) return std::nullopt;
  return TensorType{call.output_types[0].dtype, Dims(static_cast<size_t>(*rank), -1)};
}

std::optional<int64_t> SizeOf(const Call& call, size_t /*output*/, int axis) {
  const auto* const row = std::ranges::find(kStayRows, call.node->op_type(), &StayRow::op_type);
  const bool has_row = row != std::end(kStayRows) && !call.input_types.empty();
  return has_row ? row->stays(call, axis) : std::nullopt;
}

std::optional<int64_t> MostOf(const Call& call, size_t output, int axis) {
  const auto* const row = std::ranges::find(kMostRows, call.node->op_type(), &MostRow::op_type);
  return row == std::end(kMostRows) ? std::nullopt : row->most(call, output, axis);
}

}  // namespace onnxfit
