#include "estimator/program/habits.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/scopes.h"

namespace onnxfit {

namespace {

// Libraries that make their activations without arguments: diffusers 0.42.1, models/
// activations.py, get_activation; transformers 5.17.0, activations.py, ACT2FN.
constexpr std::string_view kOutOfPlace[] = {"diffusers.", "transformers."};

bool IsOfLibrary(const Node& node) {
  const std::vector<std::string> classes = ClassesOf(node);
  if (classes.size() < 2 || !classes.back().starts_with("torch.nn.modules.activation.")) {
    return false;
  }
  const std::string& caller = classes[classes.size() - 2];
  return std::any_of(std::begin(kOutOfPlace), std::end(kOutOfPlace),
                     [&](std::string_view library) { return caller.starts_with(library); });
}

// Whether a gather picked the numbers of `value`, but for a scale, an addend or a view.
bool IsPicked(const Graph& graph, ValueId value) {
  constexpr std::string_view kPassing[] = {"Div", "Mul", "Add", "Transpose", "Cast", "Identity"};
  constexpr int kMostSteps = 6;
  for (int step = 0; step < kMostSteps && value != kNoValue; ++step) {
    const NodeId producer = graph.values[Index(value)].producer;
    if (producer == kNoNode) return false;
    const Node& node = graph.nodes[Index(producer)];
    if (node.op_type == "GatherElements") return true;
    if (std::ranges::find(kPassing, node.op_type) == std::end(kPassing)) return false;
    value = node.inputs[0];
  }
  return false;
}

// T5's buckets of relative positions: those of the direction, and where (is near, …) of both.
bool AddsBuckets(const Graph& graph, const Node& add) {
  const auto maker = [&](ValueId value) {
    const NodeId producer = value == kNoValue ? kNoNode : graph.values[Index(value)].producer;
    return producer == kNoNode ? nullptr : &graph.nodes[Index(producer)];
  };
  const Node* direction = maker(add.inputs[0]);
  const Node* distance = maker(add.inputs[1]);
  if (direction == nullptr || distance == nullptr || distance->op_type != "Where") return false;
  const Node* is_near = maker(distance->inputs[0]);
  return (direction->op_type == "Add" || direction->op_type == "Mul") && is_near != nullptr &&
         is_near->op_type == "Less";
}

}  // namespace

std::set<NodeId> FindInPlaceSums(const Graph& graph) {
  std::set<NodeId> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op_type != "Add") continue;
    const bool are_picked = IsPicked(graph, node.inputs[0]) && IsPicked(graph, node.inputs[1]);
    if (are_picked || AddsBuckets(graph, node)) found.insert(static_cast<NodeId>(i));
  }
  return found;
}

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
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (IsOfLibrary(graph.nodes[i])) found.insert(static_cast<NodeId>(i));
  }
  for (const auto& [node, module] : activations) {
    if (excitations.contains(module)) found.insert(node);
  }
  return found;
}

bool HasAttention(const Graph& graph, const std::vector<Rewritten>& rewrites) {
  const auto is_call = [](const Rewritten& call) {
    return call.aten == "scaled_dot_product_attention";
  };
  if (std::ranges::any_of(rewrites, is_call)) return true;
  std::vector<bool> is_weights(graph.values.size());  // made by a softmax
  for (const Node& node : graph.nodes) {
    const ValueId first = node.inputs.empty() ? kNoValue : node.inputs[0];
    const bool reads = first != kNoValue && is_weights[Index(first)];
    if (reads && node.op_type == "MatMul") return true;
    const bool passes_on = reads && (node.op_type == "Dropout" || node.op_type == "Cast");
    if (node.outputs.empty() || node.outputs[0] == kNoValue) continue;
    if (passes_on || node.op_type == "Softmax") is_weights[Index(node.outputs[0])] = true;
  }
  return false;
}

}  // namespace onnxfit
