// What torch.export writes into the metadata of nodes, for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// "%relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,), …".
inline std::string FxText(std::string_view name, std::string_view target,
                          std::string_view arguments) {
  return fmt::format(
      "%{} : [num_users=1] = call_function[target=torch.ops.aten.{}](args = ({}), kwargs = {{}})",
      name, target, arguments);
}

// `text`, which must outlive the graph, is what the file says of `node`.
inline void Say(Graph& graph, NodeId node, std::string_view text) {
  graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.fx_node", text);
}

}  // namespace onnxfit
