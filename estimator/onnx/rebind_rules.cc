// How the constants of one node follow the batch, a row for each operator whose constants do.
#include <algorithm>
#include <string_view>
#include <utility>

#include "estimator/onnx/rebind.h"

namespace onnxfit {
namespace {

using Integers = std::vector<int64_t>;

// `size` grown as a dimension from `written` to `asked`; nullopt where that is no whole number.
std::optional<int64_t> InProportion(int64_t size, int64_t written, int64_t asked) {
  int64_t product = 0;
  if (written <= 0 || __builtin_mul_overflow(size, asked, &product)) return std::nullopt;
  return product % written == 0 ? std::optional(product / written) : std::nullopt;
}

std::optional<int64_t> ProductOf(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0 || __builtin_mul_overflow(product, dim, &product)) return std::nullopt;
  }
  return product;
}

struct Place {
  size_t axis = 0;
  int64_t in_front = 1;
};

// Which dimension of `out`, the same elements in another shape, holds what follows of that one of
// `in`: the first that begins where it begins, or else the one it lies in.
//   [8, 8, 8, 7, 7, 96] as [512, 49, 96]: the first, in the first
std::optional<Place> PlaceAfterReshape(const RebindView& view, size_t axis, const Dims& out) {
  const Dims& in = *view.written[0];
  const int64_t unit = view.unit == 0 ? in[axis] : view.unit;
  int64_t before = view.InFront(0, axis);  // elements of all dimensions in front
  for (size_t i = 0; i < axis; ++i) before *= in[i];
  int64_t begin = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool begins_here = begin == before && (unit == 1 || out[i] > 1);
    if (begins_here || (begin <= before && before < begin * out[i])) {
      return Place{i, before % begin == 0 ? before / begin : 1};
    }
    begin *= out[i];
  }
  return std::nullopt;
}

// The shape that a target of Reshape comes to; nullopt where it fits no elements.
std::optional<Dims> ResolvedTarget(const Integers& target, const Dims& in, bool allow_zero) {
  Dims dims = target;
  std::optional<size_t> open;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero && i < in.size()) dims[i] = in[i];
    if (dims[i] == -1) open = i;
  }
  if (!open.has_value()) return dims;
  dims[*open] = 1;
  const std::optional<int64_t> all = ProductOf(in);
  const std::optional<int64_t> others = ProductOf(dims);
  if (!all.has_value() || !others.has_value() || *all % *others != 0) return std::nullopt;
  dims[*open] = *all / *others;
  return dims;
}

Following FollowReshape(const RebindView& view) {
  if (view.written.size() < 2 || !view.has(0) || !view.constants[1].has_value()) return {};
  const Dims& in = *view.written[0];
  const Dims& asked = *view.asked[0];
  Dims out = view.written_output;
  if (!ProductOf(in).has_value() || !ProductOf(asked).has_value()) return {};
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (!view.Follows(0, axis)) continue;
    const std::optional<Place> place = PlaceAfterReshape(view, axis, view.written_output);
    if (!place.has_value()) return {};
    const std::optional<int64_t> scaled = InProportion(out[place->axis], in[axis], asked[axis]);
    if (!scaled.has_value()) return {};
    out[place->axis] = *scaled;
  }
  const bool allow_zero = IntAttribute(*view.node, "allowzero", 0) != 0;
  if (ResolvedTarget(*view.constants[1], asked, allow_zero) == out) return {};
  return {{{1, out}}, {}};
}

// A target that is broadcast with the input: its last entry is beside the input's last dimension.
Following FollowExpand(const RebindView& view) {
  if (view.written.size() < 2 || !view.has(0) || !view.constants[1].has_value()) return {};
  Integers target = *view.constants[1];
  const size_t rank = view.written[0]->size();
  for (size_t axis = 0; axis < rank && rank <= target.size(); ++axis) {
    int64_t& entry = target[target.size() - rank + axis];
    const bool was_kept = entry == (*view.written[0])[axis] && entry != 1;
    if (view.Follows(0, axis) && was_kept) entry = (*view.asked[0])[axis];
  }
  return target == *view.constants[1] ? Following{} : Following{{{1, target}}, {}};
}

// Sizes of all dimensions, input 3.
Following FollowResize(const RebindView& view) {
  if (view.written.size() < 4 || !view.has(0) || !view.constants[3].has_value()) return {};
  Integers sizes = *view.constants[3];
  if (sizes.size() != view.written[0]->size()) return {};  // of some axes
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const bool was_kept = sizes[axis] == (*view.written[0])[axis];
    if (view.Follows(0, axis) && was_kept) sizes[axis] = (*view.asked[0])[axis];
  }
  return sizes == *view.constants[3] ? Following{} : Following{{{3, sizes}}, {}};
}

std::optional<size_t> NamedAxis(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(axis);
}

// Bounds inside a dimension that follows are shares of it.
Following FollowSlice(const RebindView& view) {
  if (view.written.size() < 3 || !view.has(0)) return {};
  if (!view.constants[1].has_value() || !view.constants[2].has_value()) return {};
  const size_t rank = view.written[0]->size();
  Integers starts = *view.constants[1];
  Integers ends = *view.constants[2];
  const bool has_axes = view.written.size() > 3 && view.constants[3].has_value();
  for (size_t i = 0; i < starts.size() && i < ends.size(); ++i) {
    const int64_t named = has_axes ? view.constants[3]->at(i) : static_cast<int64_t>(i);
    const std::optional<size_t> axis = NamedAxis(named, rank);
    if (!axis.has_value() || !view.Follows(0, *axis)) continue;
    for (int64_t* bound : {&starts[i], &ends[i]}) {
      const int64_t written = (*view.written[0])[*axis];
      if (*bound <= 0 || *bound > written) continue;
      *bound = InProportion(*bound, written, (*view.asked[0])[*axis]).value_or(*bound);
    }
  }
  Following following;
  if (starts != *view.constants[1]) following.constants[1] = starts;
  if (ends != *view.constants[2]) following.constants[2] = ends;
  return following;
}

// Lengths of the parts, input 1.
Following FollowSplit(const RebindView& view) {
  if (view.written.size() < 2 || !view.has(0) || !view.constants[1].has_value()) return {};
  const auto axis = NamedAxis(IntAttribute(*view.node, "axis", 0), view.written[0]->size());
  if (!axis.has_value() || !view.Follows(0, *axis)) return {};
  Integers parts = *view.constants[1];
  for (int64_t& part : parts) {
    const auto scaled = InProportion(part, (*view.written[0])[*axis], (*view.asked[0])[*axis]);
    if (!scaled.has_value()) return {};
    part = *scaled;
  }
  return {{{1, parts}}, {}};
}

// squeeze() of all dimensions of 1 was written with those that there were.
Following FollowSqueeze(const RebindView& view) {
  if (view.written.size() < 2 || !view.has(0) || !view.constants[1].has_value()) return {};
  Integers axes = *view.constants[1];
  std::erase_if(axes, [&](int64_t named) {
    const std::optional<size_t> axis = NamedAxis(named, view.written[0]->size());
    return axis.has_value() && view.Follows(0, *axis);
  });
  return axes == *view.constants[1] ? Following{} : Following{{{1, axes}}, {}};
}

// The states that a recurrent layer begins with, [directions, batch, hidden]; X is [time, batch,
// features].  With layout = 1 the batch is first in all of them.
Following FollowRecurrent(const RebindView& view) {
  const size_t batch_axis = IntAttribute(*view.node, "layout", 0) != 0 ? 0 : 1;
  if (!view.has(0) || view.written[0]->size() != 3 || !view.Follows(0, batch_axis)) return {};
  Following following;
  for (const auto& [input, axis] :
       {std::pair<size_t, size_t>{4, 0}, {5, batch_axis}, {6, batch_axis}}) {
    if (!view.has(input) || view.written[input]->size() <= axis) continue;
    if (view.Follows(input, axis)) continue;
    Dims dims = *view.written[input];
    if (dims[axis] != (*view.written[0])[batch_axis]) continue;
    dims[axis] = (*view.asked[0])[batch_axis];
    following.expanded[input] = {*view.written[input], std::move(dims)};
  }
  return following;
}

// All elements of a flattened tensor, each once: how torch.export writes as_strided.
Following FollowGather(const RebindView& view) {
  if (!view.has(0) || !view.has(1) || view.written[0]->size() != 1) return {};
  Dims dims = *view.written[1];
  if (!view.Follows(0, 0) || dims != *view.asked[1]) return {};
  if (ProductOf(dims) != view.written[0]->front()) return {};
  const auto place = PlaceAfterReshape(view, 0, dims);
  if (!place.has_value()) return {};
  int64_t& size = dims[place->axis];
  const auto scaled = InProportion(size, view.written[0]->front(), view.asked[0]->front());
  if (!scaled.has_value()) return {};
  size = *scaled;
  Following following;
  following.expanded[1] = {*view.written[1], std::move(dims)};
  return following;
}

struct FollowRow {
  std::string_view op_type;
  Following (*follow)(const RebindView&);
};

constexpr FollowRow kFollowRows[] = {
    {"Reshape", FollowReshape}, {"Expand", FollowExpand},  {"Resize", FollowResize},
    {"Gather", FollowGather},   {"Slice", FollowSlice},    {"Split", FollowSplit},
    {"Squeeze", FollowSqueeze}, {"LSTM", FollowRecurrent}, {"GRU", FollowRecurrent},
    {"RNN", FollowRecurrent},
};

// Inputs whose dimensions are a layer's, whatever lies beside them.
struct WeightsRow {
  std::string_view op_type;
  size_t first;
  size_t count;
};
constexpr WeightsRow kWeights[] = {
    {"Gemm", 0, 2}, {"Conv", 1, 2}, {"ConvTranspose", 1, 2},
    {"LSTM", 1, 3}, {"GRU", 1, 3},  {"RNN", 1, 3},
};

bool IsWeight(std::string_view op_type, size_t input) {
  return std::ranges::any_of(kWeights, [&](const WeightsRow& row) {
    return row.op_type == op_type && input >= row.first && input < row.first + row.count;
  });
}

// The last two of a matrix are summed over or are its own.
size_t OwnDims(std::string_view op_type) { return op_type == "MatMul" ? 2 : 0; }

// `input` in the dimensions of `neighbour`, where both had the same and only that one's follow.
Dims Beside(const RebindView& view, size_t input, size_t neighbour, Alike alike) {
  Dims dims = *view.written[input];
  const Dims& next = *view.written[neighbour];
  const size_t own = OwnDims(view.node->op_type);
  for (size_t axis = 0; axis + own < dims.size(); ++axis) {
    const size_t shift = alike == Alike::kFromLast ? next.size() - dims.size() : 0;
    const size_t beside = axis + shift;  // wraps below 0, beyond the size
    if (beside >= next.size() || !view.Follows(neighbour, beside)) continue;
    if (dims[axis] == next[beside]) dims[axis] = (*view.asked[neighbour])[beside];
  }
  return dims;
}

Dims InFrontAfterReshape(const RebindView& view) {
  if (!view.has(0) || !ProductOf(*view.written[0]).has_value()) return {};
  Dims in_front(view.written_output.size(), 1);
  for (size_t axis = 0; axis < view.written[0]->size(); ++axis) {
    if (!view.Follows(0, axis)) continue;
    const std::optional<Place> place = PlaceAfterReshape(view, axis, view.written_output);
    if (place.has_value()) in_front[place->axis] = place->in_front;
  }
  return in_front;
}

// Of what follows in a dimension of that size of an input, where it does not begin it.
int64_t InFrontOfSize(const RebindView& view, int64_t size) {
  for (size_t input = 0; input < view.written.size(); ++input) {
    for (size_t axis = 0; view.has(input) && axis < view.written[input]->size(); ++axis) {
      const bool is_it = view.Follows(input, axis) && (*view.written[input])[axis] == size;
      if (is_it && view.InFront(input, axis) > 1) return view.InFront(input, axis);
    }
  }
  return 1;
}

bool FollowsAnywhere(const RebindView& view, size_t input) {
  return view.has(input) && *view.written[input] != *view.asked[input];
}

}  // namespace

Following FollowByRow(const RebindView& view) {
  const auto row = std::ranges::find(kFollowRows, view.node->op_type, &FollowRow::op_type);
  return row == std::end(kFollowRows) ? Following{} : row->follow(view);
}

Dims InFrontAfter(const RebindView& view) {
  if (view.node->op_type == "Reshape") return InFrontAfterReshape(view);
  Dims in_front;
  for (const int64_t size : view.written_output) in_front.push_back(InFrontOfSize(view, size));
  return in_front;
}

Following FollowByNeighbours(const RebindView& view, Alike alike) {
  Following following;
  for (size_t input = 0; input < view.written.size(); ++input) {
    if (!view.has(input) || FollowsAnywhere(view, input)) continue;
    if (IsWeight(view.node->op_type, input)) continue;
    for (size_t neighbour = 0; neighbour < view.written.size(); ++neighbour) {
      if (!FollowsAnywhere(view, neighbour)) continue;
      Dims dims = Beside(view, input, neighbour, alike);
      if (dims == *view.written[input]) continue;
      following.expanded[input] = {*view.written[input], std::move(dims)};
      break;
    }
  }
  return following;
}

}  // namespace onnxfit
