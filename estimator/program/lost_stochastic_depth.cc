#include "estimator/program/lost_stochastic_depth.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/exports.h"
#include "estimator/program/scopes.h"
#include "estimator/program/source_text.h"

namespace onnxfit {
namespace {

constexpr std::string_view kClassKey = "pkg.torch.onnx.class_hierarchy";

struct KnownModule {
  std::string_view type;
  std::string_view statement;  // the sum, in its forward
};

// torchvision 0.26, models/efficientnet.py and convnext.py.
constexpr KnownModule kKnownModules[] = {
    {"torchvision.models.convnext.CNBlock", "result += input"},
    {"torchvision.models.efficientnet.MBConv", "result += input"},
    {"torchvision.models.efficientnet.FusedMBConv", "result += input"},
};

bool SaysSo(const Node& node) {
  const std::string_view classes = FindMetadata(node.metadata, kClassKey);
  const std::string_view source = FindMetadata(node.metadata, kSourceKey);
  for (const KnownModule& known : kKnownModules) {
    const std::string quoted = fmt::format("'{}'", known.type);
    const bool is_known = classes.find(quoted) != std::string_view::npos;
    if (is_known && source.find(known.statement) != std::string_view::npos) return true;
  }
  return false;
}

// Paths of modules that have a child "block", a Sequential whose child runs x * sigmoid(x).
std::set<std::string> ModulesWithSiluBlock(const Graph& graph,
                                           const std::vector<Rewritten>& rewrites) {
  std::set<std::string> modules;
  for (const Rewritten& rewritten : rewrites) {
    if (rewritten.aten != "silu") continue;
    const std::vector<std::string> scope = ScopeOf(graph, rewritten.last);
    for (size_t depth = 1; depth + 1 < scope.size(); ++depth) {
      if (scope[depth] != "block" || !scope[depth + 1].starts_with("block.")) continue;
      const auto end = scope.begin() + static_cast<std::ptrdiff_t>(depth);
      modules.insert(ModulePath({scope.begin(), end}));
    }
  }
  return modules;
}

bool IsMadeInBlock(const Graph& graph, ValueId value) {
  const NodeId producer = graph.values[Index(value)].producer;
  if (producer == kNoNode) return false;
  const std::vector<std::string> scope = ScopeOf(graph, producer);
  return std::find(scope.begin(), scope.end(), "block") != scope.end();
}

bool IsNamedByTorchScript(const Node& node) { return node.name.starts_with('/'); }

}  // namespace

std::vector<LostStochasticDepth> FindLostStochasticDepths(const Graph& graph,
                                                          const std::vector<Rewritten>& rewrites) {
  if (IsTrainingExport(graph)) return {};
  const std::set<std::string> modules = ModulesWithSiluBlock(graph, rewrites);
  std::vector<LostStochasticDepth> lost;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op_type != "Add" || node.inputs[0] == kNoValue) continue;
    const bool has_silu_block =
        IsNamedByTorchScript(node) &&
        modules.contains(ModulePath(ScopeOf(graph, static_cast<NodeId>(i))));
    const ValueId branch = node.inputs[0];
    const bool from_block = IsMadeInBlock(graph, branch);
    if (SaysSo(node) || (has_silu_block && from_block)) {
      lost.push_back({static_cast<NodeId>(i), branch});
    }
  }
  return lost;
}

}  // namespace onnxfit
