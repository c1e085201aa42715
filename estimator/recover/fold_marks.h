// Names that tools give to what they folded a batch norm into.  Internal to the room recover/.
#pragma once

#include <optional>
#include <string>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// The module of the batch norm that the names of `node`, of its result, its weight or its bias
// show; "" where they show one and not how it is called; nullopt where they show none.  A row of
// a table for each tool.  O(rows).
std::optional<std::string> MarkedBatchNorm(const Graph& graph, const Node& node);

}  // namespace onnxfit
