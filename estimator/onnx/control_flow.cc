#include "estimator/onnx/control_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/inferrer.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// Nodes that are looked at, those of a body again in each trial and with each body around it.  A
// graph may be looked at so many times in any case.
constexpr int64_t kMaxTrialNodes = 1 << 16;
constexpr int64_t kLeastRounds = 16;
// Bodies inside one another that are tried at once; others wait until they stand alone.
constexpr int kMaxTrialDepth = 2;

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

// Writes one body out in place of its node.
void WriteOut(const onnx::NodeProto& node, const Choice& choice, BodyInliner& inliner) {
  const onnx::GraphProto& body = *BodyOf(node, choice.body);
  if (node.op_type() == "Loop") {
    inliner.InlineLoop(node, body, choice.trips);
  } else {
    inliner.InlineBranch(node, body);
  }
}

Graph Rewritten(const Graph& graph, const Choices& choices) {
  const onnx::ModelProto& old = graph.model->proto;
  onnx::ModelProto model = old;
  model.mutable_graph()->clear_node();
  BodyInliner inliner(*model.mutable_graph(), TakenNames(graph), OnnxOpset(graph), graph.path);
  for (const onnx::NodeProto& node : old.graph().node()) {
    const auto choice = choices.find(&node);
    if (choice == choices.end()) {
      *model.mutable_graph()->add_node() = node;
    } else {
      WriteOut(node, choice->second, inliner);
    }
  }
  return RebuildGraph(std::move(model), graph);
}

int64_t CountNodes(const onnx::GraphProto& graph) {
  int64_t count = graph.node_size();
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count += CountNodes(attribute.g());
      for (const onnx::GraphProto& inner : attribute.graphs()) count += CountNodes(inner);
    }
  }
  return count;
}

// What one output of an If or Loop is, as far as that is known.
struct Fact {
  onnx::TypeProto type;
  std::optional<HostTensor> elements;
  int64_t bytes = 0;  // 0 where they are not known
};

// The body of one If or Loop as a graph of its own, whose outputs are those of the node, and what
// is known of its inputs.
struct LoneBody {
  Graph graph;
  BoundInputs inputs = {};
  std::vector<std::optional<HostTensor>> elements = {};  // by input
};

// Infers what can be inferred: what an If or Loop makes is not known before somebody says it, nor
// what is computed from it.  Contradictions are left to BindShapes.
class PartialInferrer {
 public:
  PartialInferrer(const Graph& graph, const DimBinding& binding)
      : graph_(graph), inferrer_(graph, binding) {}
  explicit PartialInferrer(const LoneBody& body)
      : graph_(body.graph), inferrer_(body.graph, body.inputs) {
    for (size_t i = 0; i < body.elements.size(); ++i) {
      inferrer_.Assume(graph_.inputs[i], body.inputs.types[i], body.elements[i]);
    }
  }

  void Infer(NodeId id) {
    if (IsFlow(graph_.nodes[Index(id)]) || !inferrer_.InputsResolved(id)) return;
    try {
      inferrer_.Infer(id);
    } catch (const Error&) {
      return;
    }
  }

  // `made` by the node's outputs, left out ones aside.
  void Assume(NodeId id, const std::vector<Fact>& made) {
    size_t next = 0;
    for (const ValueId value : graph_.nodes[Index(id)].outputs) {
      if (value == kNoValue || next >= made.size()) continue;
      inferrer_.Assume(value, made[next].type, made[next].elements);
      ++next;
    }
  }

  std::vector<Fact> Outputs() const {
    std::vector<Fact> facts;
    for (const ValueId value : graph_.outputs) {
      const int64_t bytes = inferrer_.Resolved(value) ? BytesOf(inferrer_.TypeOf(value).tensor) : 0;
      facts.push_back({inferrer_.ProtoOf(value), inferrer_.KnownOf(value), bytes});
    }
    return facts;
  }

  const Graph& graph() const { return graph_; }
  const Inferrer& get() const { return inferrer_; }

 private:
  const Graph& graph_;
  Inferrer inferrer_;
};

int64_t BytesOfAll(const std::vector<Fact>& facts) {
  int64_t bytes = 0;
  for (const Fact& fact : facts) bytes = CheckedAdd(bytes, fact.bytes);
  return bytes;
}

std::optional<int64_t> KnownScalar(const Inferrer& inferrer, const Node& node, size_t input) {
  if (input >= node.inputs.size() || node.inputs[input] == kNoValue) return std::nullopt;
  const std::optional<HostTensor>& known = inferrer.KnownOf(node.inputs[input]);
  if (!known.has_value() || known->is_float() || Numel(known->stored) != 1) return std::nullopt;
  return known->integers()[0];
}

// One If or Loop of a graph that is inferred so far.
struct Flow {
  PartialInferrer& partial;
  NodeId id;
  const std::unordered_map<std::string_view, ValueId>& by_name;  // of the graph's values

  const Graph& graph() const { return partial.graph(); }
  const Node& node() const { return graph().nodes[Index(id)]; }
  const onnx::NodeProto& proto() const { return graph().model->NodeOf(id); }
  std::string name() const { return Quote(DisplayName(graph(), id)); }
};

// The inputs of a lone body are the node's, and what the body reads of the graph around it.
LoneBody BodyAlone(const Flow& flow, const Choice& choice) {
  const Inferrer& around = flow.partial.get();
  onnx::ModelProto model;
  *model.mutable_opset_import() = flow.graph().model->proto.opset_import();
  onnx::GraphProto& graph = *model.mutable_graph();
  LoneBody body;
  body.inputs.symbols = around.symbols();
  std::unordered_set<std::string> taken;
  const auto add_input = [&](std::string_view name) {
    const auto found = flow.by_name.find(name);
    if (found == flow.by_name.end() || !taken.emplace(name).second) return;
    body.inputs.types.push_back(around.ProtoOf(found->second));
    body.elements.push_back(around.KnownOf(found->second));
    graph.add_input()->set_name(std::string(name));
  };
  for (const std::string& input : flow.proto().input()) add_input(input);
  for (const std::string_view captured : CapturedNames(flow.proto())) add_input(captured);
  for (const std::string& output : flow.proto().output()) {
    if (!output.empty() && taken.insert(output).second) graph.add_output()->set_name(output);
  }
  BodyInliner inliner(graph, std::move(taken), OnnxOpset(flow.graph()), flow.graph().path);
  WriteOut(flow.proto(), choice, inliner);
  body.graph = BuildGraph(std::move(model), flow.graph().path);
  return body;
}

class FlowInliner {
 public:
  explicit FlowInliner(const onnx::GraphProto& file)
      : most_nodes_(std::max(kMaxTrialNodes, kLeastRounds * CountNodes(file))) {}

  // One level: bodies may hold further Ifs and Loops.  `depth`: of trials around it.
  Graph Inline(PartialInferrer partial, Warnings& warnings, int depth = 0) {
    const Graph& graph = partial.graph();
    CountLooks(graph);
    std::unordered_map<std::string_view, ValueId> by_name;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      by_name.emplace(graph.values[i].name, static_cast<ValueId>(i));
    }
    Choices choices;
    NodeId first = kNoNode;
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
      partial.Infer(id);
      if (!IsFlow(graph.nodes[Index(id)])) continue;
      if (first == kNoNode) first = id;
      if (!partial.get().InputsResolved(id)) continue;
      Choose({partial, id, by_name}, depth, choices, warnings);
    }
    // Behind a contradiction nothing resolves; BindShapes will say what it is.
    if (choices.empty()) Choose({partial, first, by_name}, depth, choices, warnings);
    return Rewritten(graph, choices);
  }

 private:
  void CountLooks(const Graph& graph) {
    nodes_ += CountNodes(graph.model->proto.graph());
    if (nodes_ <= most_nodes_) return;
    throw Error({graph.path, "If and Loop",
                 fmt::format("at most {} nodes, those of bodies again for each body around them, "
                             "were expected, found more",
                             most_nodes_),
                 "an export without torch.cond"});
  }

  void Choose(const Flow& flow, int depth, Choices& choices, Warnings& warnings) {
    const bool loop = flow.node().op_type == "Loop";
    for (const std::string_view body :
         {loop ? "body" : "then_branch", loop ? "body" : "else_branch"}) {
      if (BodyOf(flow.proto(), body) == nullptr) Refuse(flow, body);
    }
    choices[&flow.proto()] =
        loop ? ChooseLoop(flow, depth, warnings) : ChooseBranch(flow, depth, warnings);
  }

  [[noreturn]] static void Refuse(const Flow& flow, std::string_view body) {
    throw Error({flow.graph().path, "node " + flow.name(),
                 fmt::format("a graph was expected in its attribute '{}', found none", body), ""});
  }

  Choice ChooseLoop(const Flow& flow, int depth, Warnings& warnings) {
    std::optional<int64_t> trips = KnownScalar(flow.partial.get(), flow.node(), 0);
    if (trips == INT64_MAX) trips.reset();  // how exporters write a while loop
    const std::string often =
        trips.has_value() ? fmt::format("up to {} times", *trips) : "an unknown number of times";
    warnings.push_back(
        {warning::kUnknownBranch,
         fmt::format("the Loop {} runs {}: its body is counted once", flow.name(), often)});
    const Choice choice = {"body", trips};
    flow.partial.Assume(flow.id, Try(flow, choice, depth));
    return choice;
  }

  Choice ChooseBranch(const Flow& flow, int depth, Warnings& warnings) {
    const std::optional<int64_t> condition = KnownScalar(flow.partial.get(), flow.node(), 0);
    if (condition.has_value()) {
      const Choice choice = {*condition != 0 ? "then_branch" : "else_branch", {}};
      flow.partial.Assume(flow.id, Try(flow, choice, depth));
      return choice;
    }
    const std::vector<Fact> then_made = Try(flow, {"then_branch", {}}, depth);
    const std::vector<Fact> else_made = Try(flow, {"else_branch", {}}, depth);
    const bool is_else = BytesOfAll(else_made) > BytesOfAll(then_made);
    const std::vector<Fact>& made = is_else ? else_made : then_made;
    const std::string larger = is_else ? "else_branch" : "then_branch";
    warnings.push_back({warning::kUnknownBranch,
                        fmt::format("which branch of the If {} runs depends on data: {} is taken, "
                                    "whose outputs are {}",
                                    flow.name(), larger, FormatBytes(BytesOfAll(made)))});
    flow.partial.Assume(flow.id, made);
    return {larger, {}};
  }

  // What a body makes; nothing where it cannot be told.  What is wrong with it is said when it
  // stands among the other nodes.
  std::vector<Fact> Try(const Flow& flow, const Choice& choice, int depth) {
    try {
      LoneBody body = BodyAlone(flow, choice);
      while (HasFlow(body.graph) && depth + 1 < kMaxTrialDepth) {
        Warnings ignored;
        body.graph = Inline(PartialInferrer(body), ignored, depth + 1);
      }
      return Infer(body);
    } catch (const Error&) {
      return {};
    }
  }

  std::vector<Fact> Infer(const LoneBody& body) {
    CountLooks(body.graph);
    PartialInferrer partial(body);
    for (NodeId id = 0; id < static_cast<NodeId>(body.graph.nodes.size()); ++id) partial.Infer(id);
    return partial.Outputs();
  }

  int64_t most_nodes_;
  int64_t nodes_ = 0;
};

}  // namespace

Graph InlineControlFlow(Graph graph, const DimBinding& binding, Warnings& warnings) {
  if (!HasFlow(graph)) return graph;
  FlowInliner inliner(graph.model->proto.graph());
  while (HasFlow(graph)) graph = inliner.Inline(PartialInferrer(graph, binding), warnings);
  return graph;
}

}  // namespace onnxfit
