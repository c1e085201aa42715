#include "estimator/onnx/sequences.h"

#include <algorithm>
#include <string_view>

#include "estimator/onnx/constant_loops.h"

namespace onnxfit {
namespace {

// Longer lists are not followed.
constexpr int64_t kMaxList = 1 << 16;

// Lengths along the axis, `most` of them: given one by one, or a scalar that the last may fall
// short of.
std::optional<std::vector<int64_t>> PartLengths(const Call& call, int64_t dim, int64_t most) {
  const bool given = call.input_types.size() > 1;
  if (given && (!call.has(1) || call.in(1).is_float() || !HasUpTo(call.in(1), most))) {
    return std::nullopt;
  }
  if (given && !call.in(1).dims.empty()) return InFull(call.in(1)).integers();
  const int64_t length = given ? call.in(1).integers()[0] : 1;
  if (length <= 0 || dim / length + (dim % length > 0 ? 1 : 0) > most) return std::nullopt;
  std::vector<int64_t> lengths;
  for (int64_t at = 0; at < dim; at += length) lengths.push_back(std::min(length, dim - at));
  return lengths;
}

std::optional<ListDims> SplitToSequence(const Call& call, int64_t left) {
  const Dims& dims = call.input_types[0].dims;
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), dims.size());
  if (axis >= dims.size()) return std::nullopt;
  const int64_t most = std::min(kMaxList, left / PartCost(dims.size()));
  const auto lengths = PartLengths(call, dims[axis], most);
  if (!lengths.has_value()) return std::nullopt;
  const bool drops_axis =
      call.input_types.size() == 1 && IntAttribute(*call.node, "keepdims", 1) == 0;
  ListDims list;
  for (const int64_t length : *lengths) {
    Dims part = dims;
    part[axis] = length;
    if (drops_axis) part.erase(part.begin() + static_cast<std::ptrdiff_t>(axis));
    list.push_back(std::move(part));
  }
  return list;
}

std::optional<ListDims> SequenceConstruct(const Call& call, int64_t /*left*/) {
  ListDims list;
  for (const TensorType& type : call.input_types) list.push_back(type.dims);
  return list;
}

int64_t CostOf(const std::optional<ListDims>& list) {
  int64_t cost = 0;
  if (!list.has_value()) return cost;
  for (const Dims& part : *list) cost += PartCost(part.size());
  return cost;
}

std::optional<Dims> SequenceAt(const Call& call, const ListDims& list) {
  if (!call.has(1) || call.in(1).is_float() || Numel(call.in(1).dims) != 1) return std::nullopt;
  const size_t position = AxisOf(call.in(1).integers()[0], list.size());
  return position < list.size() ? std::optional(list[position]) : std::nullopt;
}

std::optional<Dims> ConcatFromSequence(const Call& call, const ListDims& list) {
  if (list.empty()) return std::nullopt;
  Dims dims = list[0];
  const bool stacks = IntAttribute(*call.node, "new_axis", 0) != 0;
  const size_t axis = AxisOf(IntAttribute(*call.node, "axis", 0), dims.size() + (stacks ? 1 : 0));
  if (axis >= dims.size() + (stacks ? 1 : 0)) return std::nullopt;
  if (stacks) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis),
                static_cast<int64_t>(list.size()));
    return dims;
  }
  dims[axis] = 0;
  for (const Dims& part : list) {
    if (part.size() != dims.size()) return std::nullopt;
    dims[axis] += part[axis];
  }
  return dims;
}

struct MakerRow {
  std::string_view op_type;
  std::optional<ListDims> (*make)(const Call&, int64_t left);
};
constexpr MakerRow kMakers[] = {
    {"SplitToSequence", SplitToSequence},
    {"SequenceConstruct", SequenceConstruct},
};

struct TakerRow {
  std::string_view op_type;
  std::optional<Dims> (*take)(const Call&, const ListDims&);
  bool reads_all = false;
};
constexpr TakerRow kTakers[] = {
    {"SequenceAt", SequenceAt},
    {"ConcatFromSequence", ConcatFromSequence, true},
};

}  // namespace

std::optional<ListDims> ListOf(const Call& call, int64_t& left) {
  for (const MakerRow& row : kMakers) {
    if (row.op_type != call.node->op_type()) continue;
    auto list = row.make(call, left);
    const int64_t cost = CostOf(list);
    if (cost > left) return std::nullopt;
    left -= cost;
    return list;
  }
  return std::nullopt;
}

std::optional<Dims> TakenFrom(const Call& call, const ListDims& list, int64_t& left) {
  for (const TakerRow& row : kTakers) {
    if (row.op_type != call.node->op_type()) continue;
    const int64_t cost = row.reads_all ? static_cast<int64_t>(list.size()) : 1;
    if (cost > left) return std::nullopt;
    left -= cost;
    return row.take(call, list);
  }
  return std::nullopt;
}

}  // namespace onnxfit
