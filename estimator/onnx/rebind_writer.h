// Writing what a rebound graph reads into its file.  Internal to the room onnx/.
#pragma once

#include <map>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/rebind_rules.h"

namespace onnxfit {

using Followings = std::map<NodeId, Following>;

// `graph` whose nodes read what `followings` say: new initializers in place of constants, an
// Expand in front of a tensor.  A parameter that was stored expanded and that nobody reads
// otherwise is stored once again, as the module has it.  O(nodes + what the file holds of them).
Graph WithFollowings(const Graph& graph, const Followings& followings);

}  // namespace onnxfit
