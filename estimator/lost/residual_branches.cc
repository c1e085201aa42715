// The ends of residual branches: the feed-forward blocks that some of them are, and the stochastic
// depth that libraries have there.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/libraries/libraries.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// --- Ends of branches -----------------------------------------------------------------------

// Tensors have the names of the model that was exported, with which those of its nodes may end.
bool IsOfFairseqBlock(const Graph& graph, std::string_view second) {
  if (!IsFairseqsSecondLayer(second)) return false;
  const std::string norm = FairseqsNorm(ParentOf(second));
  return std::ranges::any_of(
      graph.values, [&](const Value& value) { return value.name.find(norm) != std::string::npos; });
}

bool IsView(const Node& node) { return node.op_type == "Reshape" || node.op_type == "Transpose"; }

class BranchWalk {
 public:
  BranchWalk(const BoundGraph& bound, const NodeCalls& calls, bool takes_pointwise)
      : bound_(bound), calls_(calls), takes_pointwise_(takes_pointwise) {}

  bool IsLayer(NodeId node) const {
    return calls_.IsLinear(node) || (takes_pointwise_ && calls_.IsPointwise(node));
  }

  // The layer that alone makes `value`, but for views.
  NodeId LayerBehind(ValueId value) const {
    while (value != kNoValue && bound_.ReadersOf(value).size() == 1) {
      const NodeId node = bound_.graph().values[Index(value)].producer;
      if (node == kNoNode || IsLayer(node)) return node;
      if (!IsView(bound_.At(node))) return kNoNode;
      value = bound_.At(node).inputs[0];
    }
    return kNoNode;
  }

  // `value`, or what a scale makes it of.
  BranchEnd EndAt(NodeId reader, ValueId value) const {
    BranchEnd end = {LayerBehind(value), value, reader, true};
    if (end.layer != kNoNode) {
      end.is_plain = !calls_.IsPointwise(end.layer);
      return end;
    }
    const NodeId scale = ScaleOf(value);
    if (scale == kNoNode) return end;
    const Node& product = bound_.At(scale);
    const ValueId scaled = product.inputs[IsScale(product.inputs[1]) ? 0 : 1];
    return {LayerBehind(scaled), scaled, scale, false};
  }

 private:
  bool IsScale(ValueId value) const { return bound_.IsNumber(value) || bound_.IsStored(value, 1); }

  NodeId ScaleOf(ValueId value) const {
    NodeId scale = bound_.Inner(value, "Mul");
    if (scale == kNoNode) scale = bound_.Inner(value, "Div");
    if (scale == kNoNode || calls_.RewriteAt(scale) >= 0) return kNoNode;
    const Node& product = bound_.At(scale);
    const bool by_first = product.op_type == "Mul" && IsScale(product.inputs[0]);
    return by_first || IsScale(product.inputs[1]) ? scale : kNoNode;
  }

  const BoundGraph& bound_;
  const NodeCalls& calls_;
  bool takes_pointwise_;
};

// The one of two operands that a layer makes.
std::optional<BranchEnd> EndOfSum(const BoundGraph& bound, const Node& add, const BranchEnd& first,
                                  const BranchEnd& second) {
  const bool is_one = (first.layer == kNoNode) != (second.layer == kNoNode);
  const size_t side = first.layer == kNoNode ? 1 : 0;
  const ValueId other = add.inputs[1 - side];
  if (!is_one || bound.graph().values[Index(other)].initializer >= 0) return std::nullopt;
  return side == 0 ? first : second;
}

Hidden PastViews(const BoundGraph& bound, Hidden read) {
  for (NodeId node = bound.graph().values[Index(read.value)].producer;
       node != kNoNode && IsView(bound.At(node));
       node = bound.graph().values[Index(read.value)].producer) {
    read = {bound.At(node).inputs[0], node};
  }
  return read;
}

// Whether one forward, that of no Sequential, calls both layers, and may drop out in between.
bool ShareForward(const BoundGraph& bound, NodeId first, NodeId second) {
  const ModuleTree& modules = bound.metadata().modules;
  const ModuleId before = bound.metadata().ModuleOf(first);
  const ModuleId behind = bound.metadata().ModuleOf(second);
  const std::string& path = modules.PathOf(behind);
  if (IsUndroppedBlock(modules.PathOf(before), path) || IsOfFairseqBlock(bound.graph(), path)) {
    return false;
  }
  if (behind == kOutside || before == kOutside) return before == behind;
  const ModuleId caller = modules.CallerOf(behind);
  const bool is_listed =
      caller != kOutside && modules.NameOf(behind).starts_with(modules.NameOf(caller) + ".");
  return caller == modules.CallerOf(before) && !is_listed;
}

// --- Stochastic depth -----------------------------------------------------------------------

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

}  // namespace

NodeCalls::NodeCalls(const BoundGraph& bound, const std::vector<Rewritten>& rewrites)
    : bound_(bound),
      rewrites_(rewrites),
      rewrite_of_(bound.graph().nodes.size(), -1),
      is_inner_(bound.graph().nodes.size()) {
  for (size_t i = 0; i < rewrites.size(); ++i) {
    for (const NodeId node : rewrites[i].nodes) is_inner_[Index(node)] = true;
    rewrite_of_[Index(rewrites[i].last)] = static_cast<int32_t>(i);
    is_inner_[Index(rewrites[i].last)] = false;
  }
}

std::string_view NodeCalls::CallOf(NodeId node) const {
  const int32_t rewrite = RewriteAt(node);
  return rewrite < 0 ? std::string_view() : rewrites_[Index(rewrite)].aten;
}

bool NodeCalls::IsLinear(NodeId node) const {
  const Node& made = bound_.At(node);
  if (CallOf(node) == "linear" || made.op_type == "Gemm") return true;
  return made.op_type == "MatMul" && bound_.IsStored(made.inputs[1], 2);
}

bool NodeCalls::IsLayerNorm(NodeId node) const {
  return bound_.At(node).op_type == "LayerNormalization" || CallOf(node) == "layer_norm";
}

bool NodeCalls::IsActivation(NodeId node) const {
  constexpr std::string_view kCalls[] = {"gelu", "silu", "mish", "hardswish"};
  constexpr std::string_view kOps[] = {"Relu",
                                       "LeakyRelu",
                                       "PRelu",
                                       "Elu",
                                       "Selu",
                                       "Celu",
                                       "Clip",
                                       "Tanh",
                                       "Softplus",
                                       "HardSwish",
                                       "Mish",
                                       "Gelu",
                                       "com.microsoft.Gelu",
                                       "com.microsoft.FastGelu",
                                       "com.microsoft.BiasGelu",
                                       "com.microsoft.QuickGelu"};
  const auto is_in = [](const auto& names, std::string_view name) {
    return std::ranges::find(names, name) != std::end(names);
  };
  return RewriteAt(node) < 0 ? is_in(kOps, bound_.At(node).op_type) : is_in(kCalls, CallOf(node));
}

bool NodeCalls::IsPointwise(NodeId node) const {
  const Node& made = bound_.At(node);
  if (made.op_type != "Conv" || RewriteAt(node) >= 0) return false;
  return bound_.IsStored(made.inputs[1], 3) && bound_.DimsOf(made.inputs[1])[2] == 1;
}

ValueId NodeCalls::InputOf(NodeId node) const {
  const int32_t rewrite = RewriteAt(node);
  return rewrite < 0 ? bound_.At(node).inputs[0] : rewrites_[Index(rewrite)].inputs[0];
}

std::optional<BranchEnd> FindBranchEnd(const BoundGraph& bound, const NodeCalls& calls, NodeId sum,
                                       bool attends) {
  const Node& add = bound.At(sum);
  if (add.op_type != "Add" || calls.RewriteAt(sum) >= 0) return std::nullopt;
  const BranchWalk plain(bound, calls, /*takes_pointwise=*/false);
  BranchEnd ends[2];
  for (const size_t side : {size_t{0}, size_t{1}}) {
    ends[side] = {plain.LayerBehind(add.inputs[side]), add.inputs[side], sum, true};
  }
  if (ends[0].layer != kNoNode || ends[1].layer != kNoNode) {
    return EndOfSum(bound, add, ends[0], ends[1]);
  }
  const BranchWalk walk(bound, calls, attends);
  return EndOfSum(bound, add, walk.EndAt(sum, add.inputs[0]), walk.EndAt(sum, add.inputs[1]));
}

std::optional<Hidden> FindHidden(const BoundGraph& bound, const NodeCalls& calls, NodeId layer) {
  const Graph& graph = bound.graph();
  const Hidden hidden = PastViews(bound, {calls.InputOf(layer), layer});
  const NodeId activation = graph.values[Index(hidden.value)].producer;
  if (activation == kNoNode || !calls.IsActivation(activation)) return std::nullopt;
  const Hidden made = PastViews(bound, {calls.InputOf(activation), activation});
  const NodeId first = graph.values[Index(made.value)].producer;
  const BranchWalk walk(bound, calls, calls.IsPointwise(layer));
  if (first == kNoNode || !walk.IsLayer(first) || !ShareForward(bound, first, layer)) {
    return std::nullopt;
  }
  return hidden;
}

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
