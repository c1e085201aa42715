// Views and moves of PyTorch's that TorchScript's exporter writes as several nodes, however many a
// tensor's sizes ask for.  Sources: torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py
// (as_strided, roll, unfold), symbolic_opset13.py (unbind), pytorch v2.11.0.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// A slice along one dimension, by known numbers and without a step.
struct OneSlice {
  ValueId x = kNoValue;
  int64_t start = 0;
  int64_t end = 0;
  int64_t axis = 0;

  bool operator==(const OneSlice&) const = default;
};

std::optional<OneSlice> ReadSlice(const BoundGraph& bound, NodeId node) {
  enum : size_t { kStart = 1, kEnd, kAxis, kInputs };
  if (node == kNoNode || bound.At(node).inputs.size() != kInputs) return std::nullopt;
  int64_t numbers[kInputs] = {};
  for (const size_t i : {size_t{kStart}, size_t{kEnd}, size_t{kAxis}}) {
    const KnownTensor* known = bound.Known(bound.At(node).inputs[i]);
    if (known == nullptr || known->elements().size() != 1) return std::nullopt;
    numbers[i] = known->elements()[0];
  }
  const ValueId x = bound.At(node).inputs[0];
  if (numbers[kAxis] < 0) numbers[kAxis] += std::ssize(bound.DimsOf(x));
  return OneSlice{x, numbers[kStart], numbers[kEnd], numbers[kAxis]};
}

// --- Roll -----------------------------------------------------------------------------------

// cat ([x[-shift:], x[:-shift]]) along one dimension; both slices are the roll's own.  A roll by
// nothing has x itself in the first one's place.
std::optional<OneSlice> RolledBy(const BoundGraph& bound, NodeId cat, std::vector<NodeId>& nodes) {
  const Node& node = bound.At(cat);
  if (node.op_type != "Concat" || node.inputs.size() != 2) return std::nullopt;
  const NodeId front = bound.Inner(node.inputs[0], "Slice");
  const NodeId back = bound.Inner(node.inputs[1], "Slice");
  const auto second = ReadSlice(bound, back);
  if (!second.has_value() || second->start != 0) return std::nullopt;
  const bool is_still = second->end == 0 && second->x == node.inputs[0];
  const auto first = ReadSlice(bound, front);
  if (!is_still && first != OneSlice{second->x, second->end, kUnbounded, second->axis}) {
    return std::nullopt;
  }
  if (!is_still) nodes.push_back(front);
  nodes.insert(nodes.end(), {back, cat});
  return second;
}

// The concatenation that rolls the result of `cat` on, along another dimension.
bool IsRolledOn(const BoundGraph& bound, NodeId cat) {
  for (const NodeId reader : bound.ReadersOf(bound.At(cat).outputs[0])) {
    if (bound.At(reader).op_type != "Slice") return false;
    for (const NodeId next : bound.ReadersOf(bound.At(reader).outputs[0])) {
      std::vector<NodeId> nodes;
      const auto rolled = RolledBy(bound, next, nodes);
      if (rolled.has_value() && rolled->x == bound.At(cat).outputs[0]) return true;
    }
  }
  return false;
}

// --- Circular pads --------------------------------------------------------------------------

// cat ([x[-left:], x, x[:right]]) along one dimension, without what is none.
struct CircularPad {
  ValueId x = kNoValue;
  int64_t axis = 0;
  int64_t left = 0;
  int64_t right = 0;
};

std::optional<CircularPad> ReadCircularPad(const BoundGraph& bound, NodeId cat,
                                           std::vector<NodeId>& nodes) {
  const std::vector<ValueId>& parts = bound.At(cat).inputs;
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  const bool has_left = bound.Inner(parts[0], "Slice") != kNoNode;
  CircularPad pad = {parts[has_left ? 1 : 0], IntAttribute(bound.At(cat), "axis", 0)};
  if (pad.axis < 0) pad.axis += std::ssize(bound.DimsOf(pad.x));
  for (const ValueId part : parts) {
    if (part == pad.x) continue;
    const NodeId cut = bound.Inner(part, "Slice");
    const auto slice = ReadSlice(bound, cut);
    if (!slice.has_value() || slice->x != pad.x || slice->axis != pad.axis) return std::nullopt;
    const bool is_left = part == parts[0];
    if (is_left ? slice->end != kUnbounded || slice->start >= 0
                : slice->end <= 0 || slice->start != 0) {
      return std::nullopt;
    }
    (is_left ? pad.left : pad.right) = is_left ? -slice->start : slice->end;
    nodes.push_back(cut);
  }
  nodes.push_back(cat);
  return pad;
}

// --- Parts ----------------------------------------------------------------------------------

NodeId OnlyReader(const BoundGraph& bound, ValueId value, std::string_view op) {
  const auto readers = bound.ReadersOf(value);
  if (readers.size() != 1 || bound.graph().values[Index(value)].is_output) return kNoNode;
  return bound.At(readers[0]).op_type == op ? readers[0] : kNoNode;
}

// Windows of x along `axis`, each moved behind the other dimensions.
struct Window {
  OneSlice slice;
  int64_t axis = 0;  // where it is joined to the others
};

std::optional<Window> ReadWindow(const BoundGraph& bound, ValueId part,
                                 std::vector<NodeId>& nodes) {
  const NodeId raised = bound.Inner(part, "Unsqueeze");
  if (raised == kNoNode) return std::nullopt;
  const NodeId moved = bound.Inner(bound.At(raised).inputs[0], "Transpose");
  if (moved == kNoNode) return std::nullopt;
  const NodeId cut = bound.Inner(bound.At(moved).inputs[0], "Slice");
  const auto slice = ReadSlice(bound, cut);
  if (!slice.has_value()) return std::nullopt;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < std::ssize(bound.DimsOf(slice->x)); ++i) {
    if (i != slice->axis) order.push_back(i);
  }
  order.push_back(slice->axis);
  if (IntsAttribute(bound.At(moved), "perm") != order) return std::nullopt;
  nodes.insert(nodes.end(), {cut, moved, raised});
  return Window{*slice, slice->axis};
}

// The strides by which elements at `places` lie, or none where they do not lie so.
std::vector<int64_t> StridesOf(const KnownTensor& places) {
  const Dims& dims = places.dims;
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = 1;  // between neighbours along a dimension, in elements of `places`
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) {
    if (dims[i] > 1) strides[i] = places.elements()[Index(step)] - places.elements()[0];
  }
  for (int64_t at = 0; at < std::ssize(places.elements()); ++at) {
    int64_t place = places.elements()[0];
    int64_t rest = at;
    for (size_t i = dims.size(); i-- > 0; rest /= dims[i]) place += strides[i] * (rest % dims[i]);
    if (place != places.elements()[Index(at)]) return {};
  }
  return strides;
}

}  // namespace

std::optional<Rewritten> FindRoll(const BoundGraph& bound, NodeId last) {
  std::vector<NodeId> nodes;
  auto rolled = RolledBy(bound, last, nodes);
  if (!IsNamedByTorchScript(bound.At(last)) || !rolled.has_value()) return std::nullopt;
  if (IsRolledOn(bound, last)) return std::nullopt;
  int64_t count = 1;
  ValueId x = rolled->x;
  for (NodeId cat = bound.Maker(x, "Concat"); cat != kNoNode; cat = bound.Maker(x, "Concat")) {
    std::vector<NodeId> before;
    const auto inner = RolledBy(bound, cat, before);
    const bool is_own = inner.has_value() && bound.ReadersOf(x).size() == 2;
    if (!is_own) break;
    nodes.insert(nodes.begin(), before.begin(), before.end());
    x = inner->x;
    ++count;
  }
  return Rewritten{"roll", {x}, last, std::move(nodes), {count}};
}

std::optional<Rewritten> FindCircularPad(const BoundGraph& bound, NodeId last) {
  const auto rank = std::ssize(bound.DimsOf(bound.At(last).outputs[0]));
  if (!IsNamedByTorchScript(bound.At(last))) return std::nullopt;
  Rewritten call = {"pad.circular", {}, last, {}};
  ValueId x = bound.At(last).outputs[0];
  for (int64_t axis = rank - 1; axis >= 2; --axis) {
    const NodeId cat = bound.Maker(x, "Concat");
    std::vector<NodeId> nodes;
    const auto pad = cat == kNoNode ? std::nullopt : ReadCircularPad(bound, cat, nodes);
    if (!pad.has_value() || pad->axis != axis) return std::nullopt;
    const auto is_own = [&](NodeId reader) {
      return std::ranges::find(call.nodes, reader) != call.nodes.end();
    };
    if (cat != last && !std::ranges::all_of(bound.ReadersOf(x), is_own)) return std::nullopt;
    call.ints.insert(call.ints.end(), {pad->left, pad->right});
    call.nodes.insert(call.nodes.begin(), nodes.begin(), nodes.end());
    x = pad->x;
  }
  // torch.cat ([x, x[:, :, :1]], 2) of the code's own closes a ring.
  if (call.ints.size() < 4) return std::nullopt;
  call.inputs = {x};
  return call;
}

std::optional<Rewritten> FindUnfold(const BoundGraph& bound, NodeId last) {
  const Node& cat = bound.At(last);
  if (!IsNamedByTorchScript(cat) || cat.inputs.size() < 2) return std::nullopt;
  std::vector<NodeId> nodes;
  std::vector<Window> windows;
  for (const ValueId part : cat.inputs) {
    const auto window = ReadWindow(bound, part, nodes);
    if (!window.has_value()) return std::nullopt;
    windows.push_back(*window);
  }
  const OneSlice& first = windows[0].slice;
  const int64_t size = first.end - first.start;
  const int64_t step = windows[1].slice.start - first.start;
  for (size_t i = 0; i < windows.size(); ++i) {
    const int64_t start = static_cast<int64_t>(i) * step;
    if (windows[i].slice != OneSlice{first.x, start, start + size, first.axis}) return std::nullopt;
  }
  nodes.push_back(last);
  return Rewritten{"unfold", {first.x}, last, std::move(nodes), {first.axis, size, step}};
}

std::optional<Rewritten> FindUnbind(const BoundGraph& bound, NodeId last) {
  const NodeId split = bound.Maker(bound.At(last).inputs[0], "Split");
  if (split == kNoNode || !IsNamedByTorchScript(bound.At(last))) return std::nullopt;
  const Node& parts = bound.At(split);
  const ValueId x = parts.inputs[0];
  const auto rank = std::ssize(bound.DimsOf(x));
  int64_t axis = IntAttribute(parts, "axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || parts.outputs.size() < 2) return std::nullopt;
  Rewritten call = {"unbind", {x}, last, {split}, {axis}};
  for (const ValueId part : parts.outputs) {
    const NodeId squeeze = OnlyReader(bound, part, "Squeeze");
    if (squeeze == kNoNode || bound.DimsOf(part)[Index(axis)] != 1) return std::nullopt;
    const ValueId result = bound.At(squeeze).outputs[0];
    if (std::ssize(bound.DimsOf(result)) != rank - 1) return std::nullopt;
    call.nodes.push_back(squeeze);
    call.results.push_back(result);
  }
  const auto is_before = [&](NodeId reader) { return reader < last; };
  for (const ValueId result : call.results) {
    if (std::ranges::any_of(bound.AllReadersOf(result), is_before)) return std::nullopt;
  }
  return call.nodes.back() == last ? std::optional(std::move(call)) : std::nullopt;
}

std::optional<Rewritten> FindAsStrided(const BoundGraph& bound, NodeId last) {
  const Node& gather = bound.At(last);
  const NodeId flat = bound.Inner(gather.inputs[0], "Reshape");
  const KnownTensor* places = bound.Known(gather.inputs[1]);
  if (flat == kNoNode || places == nullptr || !IsNamedByTorchScript(gather)) return std::nullopt;
  const bool is_flat = bound.DimsOf(gather.inputs[0]).size() == 1;
  if (!is_flat || places->dims.size() < 2 || places->elements().empty()) return std::nullopt;
  std::vector<int64_t> strides = StridesOf(*places);
  if (strides.empty()) return std::nullopt;
  return Rewritten{
      "as_strided", {bound.At(flat).inputs[0]}, last, {flat, last}, std::move(strides)};
}

}  // namespace onnxfit
