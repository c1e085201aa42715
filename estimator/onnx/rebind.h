// A file whose batch (or another size) is a number, for another number: constants that carry
// the old one are found and follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

struct BoundInputs;  // dim_binding.h

// Returns `graph` with what carries sizes that `binding` changes written anew: targets of
// Reshape, sizes of Resize, bounds of Slice and Split, axes of Squeeze, and tensors that were
// expanded over the batch before the exporter folded them (an Expand goes in front of the node
// that reads them), or made by numpy for an Expand to a shape that follows.  What carries the
// batch is told by evidence alone: the graph is inferred with the file's sizes and with the new
// ones side by side, so that every dimension is known to follow or not; a constant whose entry
// takes the place of one that follows is scaled with it.
// Returns `graph` itself where `binding` keeps the file's sizes, or where the graph does not
// even hold with these (BindShapes says why).
// Throws Error at the first node that cannot follow, with the line of Python that exports it
// with a free dimension.  O(nodes).
Graph Rebind(Graph graph, const DimBinding& binding, Warnings& warnings);

// The same for a file whose batch is free, but which does not hold with the one that is asked for,
// since nodes carry the batch that it was traced with: Python's numbers, "x.split(len(x))", and
// what numpy made of them.  Which one that was is not written; of those that people trace with the
// first that the graph holds with is taken.
// nullopt where it holds with none of them or cannot follow.  O(nodes × those tried).
std::optional<Graph> RebindTraced(const Graph& graph, const DimBinding& binding,
                                  Warnings& warnings);

// The same for a file that holds with the batch that is asked for, but has lost it on the way: an
// output whose first dimension is the batch in the file has another size in its place, that of the
// trace, since a Reshape to [1, -1, 512] puts samples behind one another.  `shapes` are those of
// `bound`, which `graph` became.  nullopt where no output tells so, and where it cannot follow.
// O(nodes).
std::optional<Graph> RebindLost(const Graph& graph, const Graph& bound, const Shapes& shapes,
                                const DimBinding& binding, Warnings& warnings);

// --- How the constants of one node follow; internal to the room onnx/ ----------

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

// `graph` that has sizes `written`, all but those that are `changed`, with those that are `asked`
// for; nullopt where it does not hold as written.
// REQUIRES: `changed` is not empty.  Throws Error as Rebind does.  O(nodes).
std::optional<Graph> Follow(const Graph& graph, const BoundInputs& written,
                            const BoundInputs& asked, std::vector<ChangedDim> changed,
                            Warnings& warnings);

// --- What a rebound graph reads, written into its file -------------------------

using Followings = std::map<NodeId, Following>;

// `graph` whose nodes read what `followings` say: new initializers in place of constants, an
// Expand in front of a tensor.  A parameter that was stored expanded and that nobody reads
// otherwise is stored once again, as the module has it.  O(nodes + what the file holds of them).
Graph WithFollowings(const Graph& graph, const Followings& followings);

}  // namespace onnxfit
