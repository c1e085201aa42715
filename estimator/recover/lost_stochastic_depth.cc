#include "estimator/recover/lost_stochastic_depth.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/recover/exports.h"
#include "estimator/recover/scopes.h"
#include "estimator/recover/source_text.h"

namespace onnxfit {
namespace {

struct KnownModule {
  std::string_view type;
  std::string_view statement;  // the sum, in its forward
  size_t branch = 0;           // which operand of the sum was multiplied
};

// torchvision 0.26, models/efficientnet.py, convnext.py and swin_transformer.py.
constexpr KnownModule kKnownModules[] = {
    {"torchvision.models.convnext.CNBlock", "result += input"},
    {"torchvision.models.efficientnet.MBConv", "result += input"},
    {"torchvision.models.efficientnet.FusedMBConv", "result += input"},
    {"torchvision.models.swin_transformer.SwinTransformerBlock", "x = x + self.stochastic_depth(",
     1},
    {"torchvision.models.swin_transformer.SwinTransformerBlockV2", "x = x + self.stochastic_depth(",
     1},
};

// Their rates grow with depth, from 0 in the first block.
constexpr std::string_view kFirstBlock = "features.1.0";

const KnownModule* KnownModuleOf(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[Index(id)];
  const std::vector<std::string> classes = ClassesOf(node);
  const std::vector<SourceFrame> frames = SourceFrames(node);
  if (classes.empty() || ModulePath(ScopeOf(graph, id)).ends_with(kFirstBlock)) return nullptr;
  for (const KnownModule& known : kKnownModules) {
    const bool says_so = InnermostLine(frames).find(known.statement) != std::string_view::npos;
    if (classes.back() == known.type && says_so) return &known;
  }
  return nullptr;
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
    const KnownModule* known = KnownModuleOf(graph, static_cast<NodeId>(i));
    const ValueId branch = node.inputs[known == nullptr ? 0 : known->branch];
    const bool from_block = IsMadeInBlock(graph, branch);
    if (known != nullptr || (has_silu_block && from_block)) {
      lost.push_back({static_cast<NodeId>(i), branch});
    }
  }
  return lost;
}

}  // namespace onnxfit
