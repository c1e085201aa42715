// What exporters write as several nodes and PyTorch runs as one call, found in the graph.
// Internal to the room program/.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/graph/shapes.h"
#include "estimator/program/exporter_metadata.h"

namespace onnxfit {

// Nodes that become one call.
struct Rewritten {
  std::string_view aten;
  std::vector<ValueId> inputs;
  NodeId last = kNoNode;      // the call takes this node's place and result
  std::vector<NodeId> nodes;  // all of them, `last` included
  std::vector<int64_t> ints = {};
  bool only_in_training = false;  // in eval it is its first input
};

// What the exporter says (exported_calls.h), then every place where a pattern matches
// completely: its inner results have no other reader and are no output.  No node is in two of
// them; earlier rows win.  O(nodes × rewrites).
std::vector<Rewritten> FindRewrites(const Graph& graph, const ExporterMetadata& metadata,
                                    const Shapes& shapes);

}  // namespace onnxfit
