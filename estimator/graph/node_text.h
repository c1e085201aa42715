// How messages call a node of a graph.
#pragma once

#include <string>

#include "estimator/graph/graph.h"

namespace onnxfit {

// "node 'conv1' (Conv)", "node 'Conv #12'" where it has no name.
std::string NodeText(const Graph& graph, NodeId id);

}  // namespace onnxfit
