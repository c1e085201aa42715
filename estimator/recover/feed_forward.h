// The ends of residual branches, and the feed-forward blocks that some of them are.
// Internal to the room recover/.
#pragma once

#include <optional>

#include "estimator/onnx/graph.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/node_calls.h"

namespace onnxfit {

// x + branch, where a layer makes the branch.
struct BranchEnd {
  NodeId layer = kNoNode;
  ValueId value = kNoValue;  // where a dropout may stand: what the sum reads, or a scale before it
  NodeId reader = kNoNode;   // of `value`
  bool is_plain = true;      // a linear layer, of which the sum reads all, but for views
};

// Whose branch `sum` ends; of plain ones the first.  Those that are not are scaled, by a number
// ("x + 0.5 * ff (x)") or by a vector of the file (LayerScale), or are made, where `attends` says
// that the model has attention, by a convolution of one element (conformers).
std::optional<BranchEnd> FindBranchEnd(const BoundGraph& bound, const NodeCalls& calls, NodeId sum,
                                       bool attends);

// What an activation made, and its reader: a layer or a view in front of that.
struct Hidden {
  ValueId value = kNoValue;
  NodeId reader = kNoNode;
};

// Of a feed-forward block, layer (activation (layer (…))), of which `layer` is the second, if one
// forward calls all: "self.fc2 (act (self.fc1 (x)))".  nullopt where there is none; of a
// Sequential, whose gaps tell of dropouts; and of blocks of transformers that drop nothing out
// there.
std::optional<Hidden> FindHidden(const BoundGraph& bound, const NodeCalls& calls, NodeId layer);

}  // namespace onnxfit
