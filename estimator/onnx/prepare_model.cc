// What is done to a parsed model before a Graph is built of it: calls of its own functions are
// inlined, axes counted from the front, initializers declared that it only names.
#include <fmt/format.h>
#include <onnx/inliner/inliner.h>

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "estimator/base/quote.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {

// --- Functions of the model ----------------------------------------------------

namespace {

// What the file's functions may expand to: so many nodes, and in any case so many for each that the
// file has.
constexpr int64_t kMaxNodes = 1 << 16;
constexpr int64_t kLeastGrowth = 32;
constexpr int32_t kMaxCallDepth = 100;  // ONNX's inliner is recursive

// What inlining a function, or the graph itself, amounts to.
struct Body {
  int64_t nodes = 0;           // its own, those of sub-graphs included
  std::vector<int32_t> calls;  // of functions, by number, once for each call
};

std::string Key(const std::string& domain, const std::string& name, const std::string& overload) {
  return fmt::format("{}:{}:{}", domain == "ai.onnx" ? "" : domain, name, overload);
}

using FunctionIds = std::unordered_map<std::string, int32_t>;

FunctionIds IndexFunctions(const onnx::ModelProto& model) {
  FunctionIds ids;
  for (const onnx::FunctionProto& function : model.functions()) {
    const auto id = static_cast<int32_t>(ids.size());
    if (ids.emplace(Key(function.domain(), function.name(), function.overload()), id).second) {
      continue;
    }
    throw Error({.where = fmt::format("function {}", Quote(function.name())),
                 .text = "one definition was expected, found two"});
  }
  return ids;
}

void CheckCall(const onnx::NodeProto& node, const onnx::FunctionProto& function) {
  const auto check = [&](int found, int expected, std::string_view what) {
    if (found <= expected) return;
    throw Error({.where = fmt::format("node {}", Quote(node.name())),
                 .text = fmt::format("function {} takes at most {} {}, found {}",
                                     Quote(function.name()), expected, what, found)});
  };
  check(node.input_size(), function.input_size(), "inputs");
  check(node.output_size(), function.output_size(), "outputs");
}

class CallGraph {
 public:
  explicit CallGraph(const onnx::ModelProto& model) : model_(model), ids_(IndexFunctions(model)) {}

  // One for each function, the graph last.
  std::vector<Body> Bodies() const {
    std::vector<Body> bodies;
    for (const onnx::FunctionProto& function : model_.functions()) {
      Add(function.node(), bodies.emplace_back());
    }
    Add(model_.graph().node(), bodies.emplace_back());
    return bodies;
  }

 private:
  template <typename Nodes>
  void Add(const Nodes& nodes, Body& body) const {
    for (const onnx::NodeProto& node : nodes) {
      ++body.nodes;
      const auto found = ids_.find(Key(node.domain(), node.op_type(), node.overload()));
      if (found != ids_.end()) {
        CheckCall(node, model_.functions(found->second));
        body.calls.push_back(found->second);
      }
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) Add(attribute.g().node(), body);
        for (const onnx::GraphProto& graph : attribute.graphs()) Add(graph.node(), body);
      }
    }
  }

  const onnx::ModelProto& model_;
  FunctionIds ids_;
};

[[noreturn]] void FailOnCycle(const onnx::ModelProto& model, const std::vector<int32_t>& cycle) {
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(cycle.size(), 5); ++i) {
    names += Quote(model.functions(cycle[i]).name()) + " -> ";
  }
  if (cycle.size() > 5) names += "… -> ";
  const std::string first = Quote(model.functions(cycle.front()).name());
  throw Error(
      {.where = "function " + first,
       .text = "functions that do not call themselves were expected, found " + names + first});
}

int64_t MostNodes(const std::vector<Body>& bodies) {
  int64_t own = 0;
  for (const Body& body : bodies) own += body.nodes;
  return std::max(kMaxNodes, kLeastGrowth * own);
}

// Walks from callees to callers and adds up what a call of each expands to.
void CheckExpansion(const onnx::ModelProto& model) {
  std::vector<Body> bodies = CallGraph(model).Bodies();
  const int64_t most = MostNodes(bodies);
  std::vector<std::vector<int32_t>> calls;
  for (Body& body : bodies) calls.push_back(std::move(body.calls));
  const Sorted sorted = SortByNeeds(calls);
  if (!sorted.cycle.empty()) FailOnCycle(model, sorted.cycle);
  std::vector<int32_t> depth(bodies.size(), 0);
  for (const int32_t id : sorted.order) {
    const auto caller = static_cast<size_t>(id);
    for (const int32_t call : calls[caller]) {
      const auto callee = static_cast<size_t>(call);
      depth[caller] = std::max(depth[caller], depth[callee] + 1);
      bodies[caller].nodes = std::min(bodies[caller].nodes + bodies[callee].nodes, most + 1);
    }
    if (depth[caller] > kMaxCallDepth || bodies[caller].nodes > most) {
      throw Error({.where = "functions",
                   .text = fmt::format("at most {} nodes and {} calls inside one another were "
                                       "expected, found more",
                                       most, kMaxCallDepth)});
    }
  }
}

}  // namespace

void InlineFunctions(onnx::ModelProto& model, std::vector<std::string>& notes) {
  if (model.functions().empty()) return;
  CheckExpansion(model);
  const int before = model.functions_size();
  try {
    onnx::inliner::InlineLocalFunctions(model);
  } catch (const std::exception& error) {
    throw Error({.where = "functions",
                 .text = "functions that can be inlined were expected, found others",
                 .hint = "an export without them",
                 .detail = fmt::format("ONNX says: {}", error.what())});
  }
  notes.push_back(fmt::format("inlined {} functions", before - model.functions_size()));
  for (const onnx::FunctionProto& function : model.functions()) {
    notes.push_back(
        fmt::format("function {} is written for another opset than the model and was "
                    "not inlined",
                    Quote(function.name())));
  }
  model.clear_functions();
}

// --- What exporters write otherwise than ONNX has it ---------------------------

void CountPermutationsFromFront(onnx::ModelProto& model) {
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    if (node.op_type() != "Transpose") continue;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() != "perm") continue;
      const int rank = attribute.ints_size();
      for (int64_t& axis : *attribute.mutable_ints()) {
        if (axis < 0) axis += rank;
      }
    }
  }
}

// --- Initializers that the file only names -------------------------------------

namespace {

using Types = std::unordered_map<std::string_view, const onnx::TypeProto*>;

// In the order in which nodes read them.
std::vector<std::string_view> MissingNames(const onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> made;
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) made.insert(sparse.values().name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  std::vector<std::string_view> missing;
  const auto read = [&](std::string_view name) {
    if (!name.empty() && made.insert(name).second) missing.push_back(name);
  };
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) read(input);
    for (const std::string_view name : CapturedNames(node)) read(name);
  }
  return missing;
}

bool IsComplete(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return false;
  const auto& dims = type.tensor_type().shape().dim();
  return type.tensor_type().elem_type() != onnx::TensorProto::UNDEFINED &&
         std::ranges::all_of(dims, [](const auto& dim) { return dim.has_dim_value(); });
}

Types StoredTypes(const onnx::GraphProto& graph) {
  Types types;
  for (const auto& info : graph.value_info()) {
    if (IsComplete(info.type())) types.emplace(info.name(), &info.type());
  }
  return types;
}

void Declare(onnx::GraphProto& graph, const std::string& name, const onnx::TypeProto& type) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type.tensor_type().elem_type());
  for (const auto& dim : type.tensor_type().shape().dim()) tensor.add_dims(dim.dim_value());
}

[[noreturn]] void RefuseBare(std::string_view first, size_t count) {
  throw Error({.where = fmt::format("initializer {}", Quote(first)),
               .text = fmt::format("the file names it and {} others and holds neither them nor "
                                   "their shapes, as include_initializers=False writes it",
                                   count - 1),
               .hint = "program.save(\"m.onnx\", external_data=True), whose m.onnx.data may be "
                       "left out; of a model without weights, initializers with their dims, as "
                       "in models/README.md"});
}

}  // namespace

void DeclareMissingInitializers(onnx::ModelProto& model, std::vector<std::string>& notes) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::vector<std::string_view> missing = MissingNames(graph);
  if (missing.empty()) return;
  const Types types = StoredTypes(graph);
  std::vector<std::string_view> unknown;
  std::ranges::copy_if(missing, std::back_inserter(unknown),
                       [&](std::string_view name) { return !types.contains(name); });
  if (unknown.size() > 1 && graph.initializer_size() == 0) {
    RefuseBare(unknown.front(), unknown.size());
  }
  const size_t declared = missing.size() - unknown.size();
  for (const std::string_view name : missing) {
    const auto type = types.find(name);
    if (type != types.end()) Declare(graph, std::string(name), *type->second);
  }
  if (declared == 0) return;
  notes.push_back(
      fmt::format("{} tensors that the file names and does not hold have the types "
                  "that it stores",
                  declared));
}

}  // namespace onnxfit
