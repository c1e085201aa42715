// How the constants of one node follow when sizes that a file has written out change.
// Internal to the room onnx/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// A node in a graph that was inferred twice: with the sizes of the file, with the new ones.
struct RebindView {
  const Node* node = nullptr;
  std::vector<std::optional<Dims>> written;  // by input; nullopt: left out, no tensor
  std::vector<std::optional<Dims>> asked;    // likewise
  // By input: integers that are the same with both sizes; nullopt: not known, not the same.
  std::vector<std::optional<std::vector<int64_t>>> constants;
  // By input and dimension: of its elements, those in front of what follows:
  // 3 in [3·batch, 4] of [3, batch, 4].  Empty: 1 in all dimensions.
  std::vector<Dims> in_front;
  Dims written_output;  // of the first output
  int64_t unit = 1;     // what a dimension holds that follows: the file's batch; 0: not known

  bool has(size_t input) const { return input < written.size() && written[input].has_value(); }
  int64_t InFront(size_t input, size_t axis) const {
    return in_front[input].empty() ? 1 : in_front[input][axis];
  }
  // True where that dimension of that input is another with the new sizes.
  bool Follows(size_t input, size_t axis) const {
    return has(input) && (*written[input])[axis] != (*asked[input])[axis];
  }
};

// A tensor that was expanded before the exporter folded it: one sample of it, expanded anew.
struct Expansion {
  Dims from;
  Dims to;
};

// What the node is to read in place of its inputs.
struct Following {
  std::map<size_t, std::vector<int64_t>> constants;  // new elements of one axis, by input
  std::map<size_t, Expansion> expanded;              // by input

  bool empty() const { return constants.empty() && expanded.empty(); }
};

// What the operator's row says; empty where it has none or nothing has to change.
// REQUIRES: a node of ONNX's own domain whose inputs keep their ranks.  O(rank).
Following FollowByRow(const RebindView& view);

// `in_front` of the first output: a Reshape merges what follows with what lies in front of it,
// other nodes pass it on in a dimension of the same size.  O(rank² × inputs).
Dims InFrontAfter(const RebindView& view);

// Inputs that do not follow although their dimensions were those of one that does: tensors that
// were expanded over the batch.  `alike` says which dimensions lie side by side, counted from
// the last (as broadcasting does) or from the first (Concat).  Empty where there are none.
enum class Alike : uint8_t { kFromLast, kFromFirst };
Following FollowByNeighbours(const RebindView& view, Alike alike);

}  // namespace onnxfit
