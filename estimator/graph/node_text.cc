#include "estimator/graph/node_text.h"

#include <fmt/format.h>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"

namespace onnxfit {

std::string NodeText(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[Index(id)];
  return node.name.empty() ? "node " + Quote(DisplayName(graph, id))
                           : fmt::format("node {} ({})", Quote(node.name), node.op_type);
}

}  // namespace onnxfit
