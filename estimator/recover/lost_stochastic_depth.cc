#include "estimator/recover/lost_stochastic_depth.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/exports.h"

namespace onnxfit {
namespace {

const StochasticDepthBlock* BlockOfSum(const ExporterMetadata& metadata, NodeId node) {
  const std::vector<std::string>& classes = metadata.ClassesOf(node);
  const std::string_view line = metadata.LinesOf(node).innermost;
  for (const StochasticDepthBlock& known : StochasticDepthBlocks()) {
    const bool is_its_sum = !classes.empty() && classes.back() == known.type &&
                            line.find(known.statement) != std::string_view::npos;
    if (is_its_sum) return &known;
  }
  return nullptr;
}

// The block around `node`, by the classes that torch.export names.
ModuleId KnownBlockAround(const ExporterMetadata& metadata, NodeId node) {
  const std::vector<std::string>& classes = metadata.ClassesOf(node);
  const ModuleId module = metadata.ModuleOf(node);
  for (size_t level = 0; level < std::min(classes.size(), metadata.modules.DepthOf(module));
       ++level) {
    const auto is_it = [&](const StochasticDepthBlock& known) {
      return known.type == classes[level];
    };
    if (std::ranges::any_of(StochasticDepthBlocks(), is_it))
      return metadata.modules.AtLevel(module, level);
  }
  return kOutside;
}

// The module with a child "block", a Sequential with `module` in it.
ModuleId BlockWith(const ModuleTree& modules, ModuleId module) {
  for (; module != kOutside; module = modules.CallerOf(module)) {
    const ModuleId caller = modules.CallerOf(module);
    if (modules.NameOf(caller) == "block" && modules.NameOf(module).starts_with("block.")) {
      return modules.CallerOf(caller);
    }
  }
  return kOutside;
}

// Those in which x * sigmoid(x) runs.
std::set<std::string> ModulesWithSiluBlock(const ExporterMetadata& metadata,
                                           const std::vector<Rewritten>& rewrites) {
  std::set<std::string> modules;
  for (const Rewritten& rewritten : rewrites) {
    if (rewritten.aten != "silu") continue;
    const ModuleId block = BlockWith(metadata.modules, metadata.ModuleOf(rewritten.last));
    if (block != kOutside) modules.insert(metadata.modules.PathOf(block));
  }
  return modules;
}

bool IsMadeInBlock(const BoundGraph& bound, ValueId value) {
  const NodeId producer = bound.graph().values[Index(value)].producer;
  if (producer == kNoNode) return false;
  const ModuleTree& modules = bound.metadata().modules;
  ModuleId module = bound.metadata().ModuleOf(producer);
  while (module != kOutside && modules.NameOf(module) != "block") module = modules.CallerOf(module);
  return module != kOutside;
}

bool IsNamedByTorchScript(const Node& node) { return node.name.starts_with('/'); }

}  // namespace

// Rates grow with depth, from 0 in the first block.
std::vector<LostStochasticDepth> FindLostStochasticDepths(const BoundGraph& bound,
                                                          const std::vector<Rewritten>& rewrites) {
  const Graph& graph = bound.graph();
  const ExporterMetadata& metadata = bound.metadata();
  if (IsTrainingExport(graph)) return {};
  const std::set<std::string> modules = ModulesWithSiluBlock(metadata, rewrites);
  ModuleId first_block = kOutside;
  std::vector<LostStochasticDepth> lost;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    if (first_block == kOutside) first_block = KnownBlockAround(metadata, id);
    const Node& node = graph.nodes[i];
    if (node.op_type != "Add" || node.inputs[0] == kNoValue) continue;
    const bool has_silu_block = IsNamedByTorchScript(node) && modules.contains(metadata.PathOf(id));
    const StochasticDepthBlock* known = BlockOfSum(metadata, id);
    if (known != nullptr && metadata.ModuleOf(id) == first_block) continue;
    const ValueId branch = node.inputs[known == nullptr ? 0 : known->branch];
    if (known != nullptr || (has_silu_block && IsMadeInBlock(bound, branch))) {
      lost.push_back({id, branch});
    }
  }
  return lost;
}

}  // namespace onnxfit
