#include "estimator/onnx/control_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/named_sizes.h"
#include "estimator/onnx/partial_inferrer.h"

namespace onnxfit {
namespace {

// Nodes that are looked at, those of a body again in each trial and with each body around it.  A
// graph may be looked at so many times in any case.
constexpr int64_t kMaxTrialNodes = 1 << 16;
constexpr int64_t kLeastRounds = 16;
// Nodes of loops that are written out once for each trip.
constexpr int64_t kMaxWrittenNodes = 1 << 13;
// Bodies inside one another that are tried at once; others wait until they stand alone.
constexpr int kMaxTrialDepth = 2;

// What becomes of one If or Loop.
struct Choice {
  std::string body;                   // the attribute that is written out
  std::optional<int64_t> trips = {};  // of a Loop, at most, where known
  int64_t copies = 1;                 // of its body that are written out
};

// By the node's place in the file, which stays when nodes are sorted.
using Choices = std::map<const onnx::NodeProto*, Choice>;

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

// Writes one body out in place of its node.
void WriteOut(const onnx::NodeProto& node, const Choice& choice, BodyInliner& inliner) {
  const onnx::GraphProto& body = *BodyOf(node, choice.body);
  if (node.op_type() == "Loop") {
    inliner.InlineLoop(node, body, {choice.trips, choice.copies});
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

// The inputs of a lone body are the node's, and what the body reads of the graph around it.
LoneBody BodyAlone(const Flow& flow, const Choice& choice) {
  const Inferrer& around = flow.partial.get();
  onnx::ModelProto model;
  *model.mutable_opset_import() = flow.graph().model->proto.opset_import();
  onnx::GraphProto& graph = *model.mutable_graph();
  LoneBody body;
  body.inputs = around.SizesByName();
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
  // Takes the sizes that it has used out of `binding`.
  FlowInliner(const onnx::GraphProto& file, DimBinding& binding)
      : binding_(binding), most_nodes_(std::max(kMaxTrialNodes, kLeastRounds * CountNodes(file))) {}

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
    Trips trips = TripsOf(flow);
    const std::string name = NameOfLoop(flow);
    const auto given = binding_.dims.find(name);
    if (!trips.is_exact && given != binding_.dims.end()) {
      trips = {given->second, true};
      if (depth == 0) binding_.dims.erase(given);
    }
    const bool is_asked = !trips.most && depth == 0 && flow.partial.get().InputsResolved(flow.id);
    if (is_asked) RefuseTrips(flow, name);
    const Choice choice = {"body", trips.most, CopiesOf(flow, trips.most.value_or(1), depth)};
    Say(flow, trips, choice.copies, warnings);
    flow.partial.Assume(flow.id, Try(flow, choice, depth));
    return choice;
  }

  // What --dim calls how often it runs.
  static std::string NameOfLoop(const Flow& flow) {
    for (const ValueId value : flow.node().outputs) {
      if (value != kNoValue) return std::string(flow.graph().values[Index(value)].name);
    }
    return "";
  }

  [[noreturn]] static void RefuseTrips(const Flow& flow, const std::string& name) {
    throw Error({flow.graph().path, "node " + flow.name(),
                 "how often the body of this Loop runs depends on data",
                 "--dim " + ShellWord(name + "=10")});
  }

  // As many as there are trips, while there is room for their nodes.
  int64_t CopiesOf(const Flow& flow, int64_t trips, int depth) {
    const int64_t nodes = CountNodes(*BodyOf(flow.proto(), "body"));
    const bool is_short = trips <= BodyInliner::kMaxTrips;
    if (depth > 0 || !is_short || nodes * trips > room_) return std::min<int64_t>(trips, 1);
    room_ -= nodes * trips;
    return trips;
  }

  static void Say(const Flow& flow, const Trips& trips, int64_t copies, Warnings& warnings) {
    const int64_t most = trips.most.value_or(1);
    if (trips.is_exact && copies == most) return;
    const std::string often = !trips.most      ? "an unknown number of times"
                              : trips.is_exact ? fmt::format("{} times", most)
                                               : fmt::format("up to {} times", most);
    const bool is_whole = copies == most && trips.most;
    const std::string counted = is_whole ? "so often it is counted" : "its body is counted once";
    warnings.push_back({is_whole ? warning::kUnknownBranch : warning::kCountedOnce,
                        fmt::format("the Loop {} runs {}: {}", flow.name(), often, counted)});
  }

  Choice ChooseBranch(const Flow& flow, int depth, Warnings& warnings) {
    const std::optional<int64_t> condition = KnownScalar(flow.partial.get(), flow.node(), 0);
    if (condition.has_value()) {
      const Choice choice = {*condition != 0 ? "then_branch" : "else_branch"};
      flow.partial.Assume(flow.id, Try(flow, choice, depth));
      return choice;
    }
    int64_t then_bytes = 0;
    int64_t else_bytes = 0;
    const std::vector<Fact> then_made = Try(flow, {"then_branch"}, depth, &then_bytes);
    const std::vector<Fact> else_made = Try(flow, {"else_branch"}, depth, &else_bytes);
    const bool has_then = IsNamed(flow, "then_branch");
    const bool is_told = has_then != IsNamed(flow, "else_branch");
    const bool is_else = is_told ? !has_then : else_bytes > then_bytes;
    const std::vector<Fact>& made = is_else ? else_made : then_made;
    const std::string larger = is_else ? "else_branch" : "then_branch";
    warnings.push_back(
        {warning::kUnknownBranch,
         fmt::format("which branch of the If {} runs depends on data: {} is taken, "
                     "whose tensors are {}{}",
                     flow.name(), larger, FormatBytes(is_else ? else_bytes : then_bytes),
                     is_told ? " and whose sizes --dim gives" : "")});
    flow.partial.Assume(flow.id, made);
    return {larger};
  }

  // Whether --dim gives a size of what a branch makes: who does means that branch.
  static bool IsNamed(const Flow& flow, std::string_view branch) {
    const BoundInputs sizes = flow.partial.get().SizesByName();
    return std::ranges::any_of(sizes.inner_dims, [&](const auto& dim) {
      return MayNameSizeIn(*BodyOf(flow.proto(), branch), dim.first);
    });
  }

  // What a body makes; nothing where it cannot be told.  What is wrong with it is said when it
  // stands among the other nodes.
  // `bytes`: of all tensors that it makes.
  std::vector<Fact> Try(const Flow& flow, const Choice& choice, int depth,
                        int64_t* bytes = nullptr) {
    try {
      LoneBody body = BodyAlone(flow, choice);
      while (HasFlow(body.graph) && depth + 1 < kMaxTrialDepth) {
        Warnings ignored;
        body.graph = Inline(PartialInferrer(body), ignored, depth + 1);
      }
      return Infer(body, bytes);
    } catch (const Error&) {
      return {};
    }
  }

  std::vector<Fact> Infer(const LoneBody& body, int64_t* bytes) {
    CountLooks(body.graph);
    PartialInferrer partial(body);
    int64_t made = 0;
    for (NodeId id = 0; id < static_cast<NodeId>(body.graph.nodes.size()); ++id) {
      partial.Infer(id);
      if (bytes != nullptr) made = CheckedAdd(made, partial.BytesMadeBy(id));
    }
    if (bytes != nullptr) *bytes = made;
    return partial.Outputs();
  }

  DimBinding& binding_;
  int64_t room_ = kMaxWrittenNodes;
  int64_t most_nodes_;
  int64_t nodes_ = 0;
};

}  // namespace

Graph InlineControlFlow(Graph graph, DimBinding& binding, Warnings& warnings) {
  graph = LoopsForScans(UnrollSequences(std::move(graph)));
  if (!HasFlow(graph)) return graph;
  graph = JoinEmbeddingBags(std::move(graph));
  FlowInliner inliner(graph.model->proto.graph(), binding);
  while (HasFlow(graph)) {
    graph = inliner.Inline(PartialInferrer(graph, binding), warnings);
    graph = LoopsForScans(UnrollSequences(std::move(graph)));
  }
  return graph;
}

}  // namespace onnxfit
