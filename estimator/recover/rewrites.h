// What exporters write as several nodes and PyTorch runs as one call, found in the graph.
// Internal to the room recover/.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {

// A call that no node stands for, in front of the one that nodes became: k's own transpose,
// which an exporter merged with another one; the copy that contiguous() makes.
struct HiddenCall {
  // A value of the graph, or the result of an earlier hidden call.
  struct Operand {
    ValueId value = kNoValue;
    int hidden = -1;  // index into Rewritten::before
  };
  std::string_view aten;
  std::vector<Operand> inputs;
  TensorType type;  // of its result, as the file would have it
  std::vector<int64_t> ints = {};
  int takes_place_of = -1;  // the input of the rewritten call that its result is
  bool as_written = false;  // in fp32 whatever the model's precision
};

// Nodes that become one call.
struct Rewritten {
  std::string_view aten;
  std::vector<ValueId> inputs;
  NodeId last = kNoNode;      // the call takes this node's place and result
  std::vector<NodeId> nodes;  // all of them, `last` included
  std::vector<int64_t> ints = {};
  bool only_in_training = false;        // in eval it is its first input
  std::vector<HiddenCall> before = {};  // in their order
  NodeId dropout = kNoNode;             // where this drops out, ints[0] of the call is 1
  bool in_compute_type = false;         // under autocast its result has the lower type
  std::vector<ValueId> results = {};    // where there are several; empty: that of `last`
  std::string_view aten_in_eval = {};   // "": the same
};

// What the exporter says (exported_calls.h), then every place where a pattern matches
// completely: its inner results have no other reader and are no output.  No node is in two of
// them; earlier rows win.  O(nodes × rewrites).
std::vector<Rewritten> FindRewrites(const BoundGraph& bound);

}  // namespace onnxfit
