#include "estimator/recover/chunks.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Inputs of Slice.
enum : size_t { kData, kStarts, kEnds, kAxes, kInputs };

bool IsOneAxis(const BoundGraph& bound, const Node& slice) {
  if (slice.op_type != "Slice" || slice.inputs.size() != kInputs) return false;
  const KnownTensor* axes = bound.Known(slice.inputs[kAxes]);
  return axes != nullptr && axes->elements().size() == 1;
}

// The number that input `i` of a slice is, else -1.
int64_t NumberOf(const BoundGraph& bound, const Node& slice, size_t i) {
  const KnownTensor* known = bound.Known(slice.inputs[i]);
  return known == nullptr || known->elements().size() != 1 ? -1 : known->elements()[0];
}

// The slice of the same tensor that ends where `next` begins, by the same product.
NodeId Before(const BoundGraph& bound, const Node& next) {
  if (bound.Maker(next.inputs[kStarts], "Mul") == kNoNode) return kNoNode;
  for (const NodeId reader : bound.ReadersOf(next.inputs[kData])) {
    const Node& slice = bound.At(reader);
    if (!IsOneAxis(bound, slice) || slice.inputs[kData] != next.inputs[kData]) continue;
    const bool is_same_axis = NumberOf(bound, slice, kAxes) == NumberOf(bound, next, kAxes);
    if (is_same_axis && slice.inputs[kEnds] == next.inputs[kStarts]) return reader;
  }
  return kNoNode;
}

bool EndsWithData(const BoundGraph& bound, const Node& slice) {
  const Dims& dims = bound.DimsOf(slice.inputs[kData]);
  int64_t axis = bound.Known(slice.inputs[kAxes])->elements()[0];
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  return bound.Maker(slice.inputs[kEnds], "Mul") != kNoNode &&
         NumberOf(bound, slice, kEnds) == dims[Index(axis)];
}

bool IsReadBefore(const BoundGraph& bound, NodeId slice, NodeId last) {
  return std::ranges::any_of(bound.ReadersOf(bound.At(slice).outputs[0]),
                             [&](NodeId reader) { return reader < last; });
}

}  // namespace

std::optional<Rewritten> FindChunk(const BoundGraph& bound, NodeId last) {
  const Node& end = bound.At(last);
  if (!IsOneAxis(bound, end) || !EndsWithData(bound, end)) return std::nullopt;
  Rewritten chunk;
  chunk.aten = "split";
  chunk.inputs = {end.inputs[kData]};
  chunk.last = last;
  NodeId slice = last;
  for (;;) {
    if (IsReadBefore(bound, slice, last)) return std::nullopt;
    chunk.nodes.insert(chunk.nodes.begin(), slice);
    chunk.results.insert(chunk.results.begin(), bound.At(slice).outputs[0]);
    if (NumberOf(bound, bound.At(slice), kStarts) == 0) break;
    const NodeId before = Before(bound, bound.At(slice));
    if (before == kNoNode || before >= slice) return std::nullopt;
    slice = before;
  }
  return chunk.nodes.size() < 2 ? std::nullopt : std::optional(std::move(chunk));
}

}  // namespace onnxfit
