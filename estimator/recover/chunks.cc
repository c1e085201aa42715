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

bool IsOneAxis(const Pattern& pattern, const Node& slice) {
  if (slice.op_type != "Slice" || slice.inputs.size() != kInputs) return false;
  const KnownTensor* axes = pattern.Known(slice.inputs[kAxes]);
  return axes != nullptr && axes->elements().size() == 1;
}

// The number that input `i` of a slice is, else -1.
int64_t NumberOf(const Pattern& pattern, const Node& slice, size_t i) {
  const KnownTensor* known = pattern.Known(slice.inputs[i]);
  return known == nullptr || known->elements().size() != 1 ? -1 : known->elements()[0];
}

// The slice of the same tensor that ends where `next` begins, by the same product.
NodeId Before(const Pattern& pattern, const Node& next) {
  if (pattern.Maker(next.inputs[kStarts], "Mul") == kNoNode) return kNoNode;
  for (const NodeId reader : pattern.ReadersOf(next.inputs[kData])) {
    const Node& slice = pattern.At(reader);
    if (!IsOneAxis(pattern, slice) || slice.inputs[kData] != next.inputs[kData]) continue;
    const bool is_same_axis = NumberOf(pattern, slice, kAxes) == NumberOf(pattern, next, kAxes);
    if (is_same_axis && slice.inputs[kEnds] == next.inputs[kStarts]) return reader;
  }
  return kNoNode;
}

bool EndsWithData(const Pattern& pattern, const Node& slice) {
  const Dims& dims = pattern.DimsOf(slice.inputs[kData]);
  int64_t axis = pattern.Known(slice.inputs[kAxes])->elements()[0];
  if (axis < 0) axis += static_cast<int64_t>(dims.size());
  return pattern.Maker(slice.inputs[kEnds], "Mul") != kNoNode &&
         NumberOf(pattern, slice, kEnds) == dims[Index(axis)];
}

bool IsReadBefore(const Pattern& pattern, NodeId slice, NodeId last) {
  return std::ranges::any_of(pattern.ReadersOf(pattern.At(slice).outputs[0]),
                             [&](NodeId reader) { return reader < last; });
}

}  // namespace

std::optional<Rewritten> FindChunk(const Pattern& pattern, NodeId last) {
  const Node& end = pattern.At(last);
  if (!IsOneAxis(pattern, end) || !EndsWithData(pattern, end)) return std::nullopt;
  Rewritten chunk;
  chunk.aten = "split";
  chunk.inputs = {end.inputs[kData]};
  chunk.last = last;
  NodeId slice = last;
  for (;;) {
    if (IsReadBefore(pattern, slice, last)) return std::nullopt;
    chunk.nodes.insert(chunk.nodes.begin(), slice);
    chunk.results.insert(chunk.results.begin(), pattern.At(slice).outputs[0]);
    if (NumberOf(pattern, pattern.At(slice), kStarts) == 0) break;
    const NodeId before = Before(pattern, pattern.At(slice));
    if (before == kNoNode || before >= slice) return std::nullopt;
    slice = before;
  }
  return chunk.nodes.size() < 2 ? std::nullopt : std::optional(std::move(chunk));
}

}  // namespace onnxfit
