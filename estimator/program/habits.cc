#include "estimator/program/habits.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/scopes.h"

namespace onnxfit {

std::set<NodeId> FindOutOfPlaceActivations(const Graph& graph) {
  std::set<std::string> excitations;  // modules with a scale_activation
  std::vector<std::pair<NodeId, std::string>> activations;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    const std::string path = ModulePath(ScopeOf(graph, node));
    const std::string_view child = ChildOf(path);
    if (child == "scale_activation") excitations.emplace(ParentOf(path));
    const bool is_relu = graph.nodes[i].op_type == "Relu";
    if (child == "activation" && is_relu) activations.emplace_back(node, ParentOf(path));
  }
  std::set<NodeId> found;
  for (const auto& [node, module] : activations) {
    if (excitations.contains(module)) found.insert(node);
  }
  return found;
}

}  // namespace onnxfit
