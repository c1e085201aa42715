#include "estimator/graph/control_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/graph/inferrer.h"
#include "estimator/graph/inline_body.h"
#include "estimator/graph/onnx_model.h"

namespace onnxfit {
namespace {

// Nodes that are looked at to find out which branches are larger.
constexpr int64_t kMaxTrialNodes = 1 << 21;

// What becomes of one If or Loop.
struct Choice {
  std::string body;              // the attribute that is written out
  std::optional<int64_t> trips;  // of a Loop, at most, where known
};

// By the node's place in the file, which stays when nodes are sorted.
using Choices = std::map<const onnx::NodeProto*, Choice>;

bool IsFlow(const Node& node) { return node.op_type == "If" || node.op_type == "Loop"; }

bool HasFlow(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), IsFlow);
}

const onnx::GraphProto* BodyOf(const onnx::NodeProto& node, std::string_view name) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute != nullptr && attribute->has_g() ? &attribute->g() : nullptr;
}

std::unordered_set<std::string> TakenNames(const Graph& graph) {
  std::unordered_set<std::string> taken;
  for (const Value& value : graph.values) taken.emplace(value.name);
  for (const Node& node : graph.nodes) taken.emplace(node.name);
  return taken;
}

int64_t OnnxOpset(const Graph& graph) {
  for (const OpsetImport& opset : graph.opsets) {
    if (opset.domain.empty()) return opset.version;
  }
  return 0;
}

Graph Rewritten(const Graph& graph, const Choices& choices) {
  const onnx::ModelProto& old = graph.model->proto;
  onnx::ModelProto model = old;
  model.mutable_graph()->clear_node();
  BodyInliner inliner(*model.mutable_graph(), TakenNames(graph), OnnxOpset(graph));
  for (const onnx::NodeProto& node : old.graph().node()) {
    const auto choice = choices.find(&node);
    if (choice == choices.end()) {
      *model.mutable_graph()->add_node() = node;
    } else if (node.op_type() == "Loop") {
      inliner.InlineLoop(node, *BodyOf(node, "body"), choice->second.trips);
    } else {
      inliner.InlineBranch(node, *BodyOf(node, choice->second.body));
    }
  }
  return RebuildGraph(std::move(model), graph);
}

// Infers what can be inferred: what an If or Loop makes is not known yet, nor what is
// computed from it.  Contradictions are left to BindShapes.
class PartialInferrer {
 public:
  PartialInferrer(const Graph& graph, const DimBinding& binding) : inferrer_(graph, binding) {}

  void Infer(const Graph& graph, NodeId id) {
    if (IsFlow(graph.nodes[Index(id)]) || !inferrer_.InputsResolved(id)) return;
    try {
      inferrer_.Infer(id);
    } catch (const Error&) {
      return;
    }
  }

  const Inferrer& get() const { return inferrer_; }

 private:
  Inferrer inferrer_;
};

std::optional<int64_t> KnownScalar(const Inferrer& inferrer, const Node& node, size_t input) {
  if (input >= node.inputs.size() || node.inputs[input] == kNoValue) return std::nullopt;
  const std::optional<HostTensor>& known = inferrer.KnownOf(node.inputs[input]);
  if (!known.has_value() || known->is_float() || Numel(known->stored) != 1) return std::nullopt;
  return known->integers()[0];
}

class FlowInliner {
 public:
  FlowInliner(const DimBinding& binding, Warnings& warnings)
      : binding_(binding), warnings_(warnings) {}

  // One level: bodies may hold further Ifs and Loops.
  Graph Inline(const Graph& graph) {
    PartialInferrer partial(graph, binding_);
    Choices choices;
    NodeId first = kNoNode;
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
      partial.Infer(graph, id);
      if (!IsFlow(graph.nodes[Index(id)])) continue;
      if (first == kNoNode) first = id;
      if (partial.get().InputsResolved(id)) Choose(graph, id, partial.get(), choices);
    }
    // Behind a contradiction nothing resolves; BindShapes will say what it is.
    if (choices.empty()) Choose(graph, first, partial.get(), choices);
    return Rewritten(graph, choices);
  }

 private:
  void Choose(const Graph& graph, NodeId id, const Inferrer& inferrer, Choices& choices) {
    const onnx::NodeProto& proto = graph.model->NodeOf(id);
    const Node& node = graph.nodes[Index(id)];
    const bool loop = node.op_type == "Loop";
    for (const std::string_view body :
         {loop ? "body" : "then_branch", loop ? "body" : "else_branch"}) {
      if (BodyOf(proto, body) == nullptr) Refuse(graph, id, body);
    }
    choices[&proto] = loop ? ChooseLoop(graph, id, inferrer) : ChooseBranch(graph, id, inferrer);
  }

  [[noreturn]] static void Refuse(const Graph& graph, NodeId id, std::string_view body) {
    throw Error({graph.path, "node " + Quote(DisplayName(graph, id)),
                 fmt::format("a graph was expected in its attribute '{}', found none", body), ""});
  }

  Choice ChooseLoop(const Graph& graph, NodeId id, const Inferrer& inferrer) {
    const Node& node = graph.nodes[Index(id)];
    std::optional<int64_t> trips = KnownScalar(inferrer, node, 0);
    if (trips == INT64_MAX) trips.reset();  // how exporters write a while loop
    const std::string often =
        trips.has_value() ? fmt::format("up to {} times", *trips) : "an unknown number of times";
    warnings_.push_back(
        {warning::kUnknownBranch, fmt::format("the Loop {} runs {}: its body is counted once",
                                              Quote(DisplayName(graph, id)), often)});
    return {"body", trips};
  }

  Choice ChooseBranch(const Graph& graph, NodeId id, const Inferrer& inferrer) {
    const Node& node = graph.nodes[Index(id)];
    const std::optional<int64_t> condition = KnownScalar(inferrer, node, 0);
    if (condition.has_value()) return {*condition != 0 ? "then_branch" : "else_branch", {}};
    const int64_t then_bytes = OutputBytes(graph, id, "then_branch");
    const int64_t else_bytes = OutputBytes(graph, id, "else_branch");
    const std::string larger = else_bytes > then_bytes ? "else_branch" : "then_branch";
    warnings_.push_back({warning::kUnknownBranch,
                         fmt::format("which branch of the If {} runs depends on data: {} is taken, "
                                     "whose outputs are {}",
                                     Quote(DisplayName(graph, id)), larger,
                                     FormatBytes(std::max(then_bytes, else_bytes)))});
    return {larger, {}};
  }

  // Of one branch, as far as they can be told.
  int64_t OutputBytes(const Graph& graph, NodeId id, const std::string& body) {
    const Graph trial = Rewritten(graph, {{&graph.model->NodeOf(id), {body, {}}}});
    trial_nodes_ += static_cast<int64_t>(trial.nodes.size());
    if (trial_nodes_ > kMaxTrialNodes) {
      throw Error({graph.path, "node " + Quote(DisplayName(graph, id)),
                   fmt::format("branches that depend on data, of at most {} nodes, were expected, "
                               "found more",
                               kMaxTrialNodes),
                   "an export without torch.cond"});
    }
    PartialInferrer partial(trial, binding_);
    for (NodeId node = 0; node < static_cast<NodeId>(trial.nodes.size()); ++node) {
      partial.Infer(trial, node);
    }
    std::unordered_set<std::string_view> outputs;
    for (const ValueId value : graph.nodes[Index(id)].outputs) {
      if (value != kNoValue) outputs.insert(graph.values[Index(value)].name);
    }
    int64_t bytes = 0;
    for (ValueId value = 0; value < static_cast<ValueId>(trial.values.size()); ++value) {
      if (!outputs.contains(trial.values[Index(value)].name)) continue;
      if (!partial.get().Resolved(value)) continue;
      bytes = CheckedAdd(bytes, BytesOf(partial.get().TypeOf(value).tensor));
    }
    return bytes;
  }

  const DimBinding& binding_;
  Warnings& warnings_;
  int64_t trial_nodes_ = 0;
};

}  // namespace

Graph InlineControlFlow(Graph graph, const DimBinding& binding, Warnings& warnings) {
  FlowInliner inliner(binding, warnings);
  while (HasFlow(graph)) graph = inliner.Inline(graph);
  return graph;
}

}  // namespace onnxfit
