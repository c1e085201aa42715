// A Graph of what the parser made: names become ids, nodes are put in order.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/quote.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/schemas.h"

namespace onnxfit {
namespace {

AttributeValue ValueOf(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return proto.i();
    case onnx::AttributeProto::FLOAT:
      return static_cast<double>(proto.f());
    case onnx::AttributeProto::STRING:
      return std::string_view(proto.s());
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string_view>(proto.strings().begin(), proto.strings().end());
    default:
      return std::monostate();
  }
}

Attribute ToAttribute(const onnx::AttributeProto& proto) { return {proto.name(), ValueOf(proto)}; }

void AppendMetadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries,
                    Metadata& metadata) {
  for (const onnx::StringStringEntryProto& entry : entries) {
    metadata.emplace_back(entry.key(), entry.value());
  }
}

// Both exporters of PyTorch name themselves and their version.  Tools that rewrite a file leave
// both in place or put their own names.
std::string TorchOf(const onnx::ModelProto& model) {
  const std::string& name = model.producer_name();
  return name == "pytorch" || name == "PyTorch" ? model.producer_version() : "";
}

std::string_view NormalDomain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

class GraphBuilder {
 public:
  explicit GraphBuilder(std::shared_ptr<OnnxModel> model)
      : model_(std::move(model)), proto_(model_->proto.graph()) {}

  Graph Build() {
    CheckIsComplete(model_->proto);
    CheckOpset(model_->proto);
    Reserve();
    AddOpsets();
    AddInitializers();
    AddInputs();
    AddNodes();
    reads_.resize(graph_.nodes.size());
    ReadInputs();
    SortNodes();
    AddOutputs();
    LeaveOutStatistics();
    CheckSignatures();
    AppendMetadata(model_->proto.metadata_props(), graph_.metadata);
    AppendMetadata(proto_.metadata_props(), graph_.metadata);
    graph_.torch = TorchOf(model_->proto);
    graph_.model = std::move(model_);
    return std::move(graph_);
  }

 private:
  void Reserve() {
    const auto nodes = static_cast<size_t>(proto_.node_size());
    const auto initializers = static_cast<size_t>(proto_.initializer_size());
    const auto values = nodes + initializers + static_cast<size_t>(proto_.input_size());
    graph_.nodes.reserve(nodes);
    graph_.initializers.reserve(initializers);
    graph_.values.reserve(values);
    ids_.reserve(values);
  }

  void AddOpsets() {
    for (const onnx::OperatorSetIdProto& opset : model_->proto.opset_import()) {
      graph_.opsets.push_back({NormalDomain(opset.domain()), opset.version()});
    }
  }

  // A new value, or the one that has this name already.
  std::pair<ValueId, bool> AddValue(std::string_view name) {
    const auto next = static_cast<ValueId>(graph_.values.size());
    const auto [entry, is_new] = ids_.emplace(name, next);
    if (is_new) graph_.values.push_back({.name = name});
    return {entry->second, is_new};
  }

  Value& At(ValueId id) { return graph_.values[Index(id)]; }
  Node& At(NodeId id, std::vector<Node>& nodes) { return nodes[Index(id)]; }

  void AddInitializers() {
    for (const onnx::TensorProto& tensor : proto_.initializer()) {
      const bool external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
      AddInitializer(tensor.name(), TypeOfInitializer(tensor), external);
      if (HasContents(tensor)) model_->contents[graph_.initializers.back().value] = &tensor;
    }
    for (const onnx::SparseTensorProto& tensor : proto_.sparse_initializer()) {
      AddInitializer(tensor.values().name(), TypeOfInitializer(tensor), false);
    }
  }

  void AddInitializer(std::string_view name, TensorType type, bool external) {
    const auto [value, is_new] = AddValue(name);
    if (!is_new || name.empty()) FailOnName("initializer", name);
    At(value).initializer = static_cast<int32_t>(graph_.initializers.size());
    graph_.initializers.push_back({value, std::move(type), external});
  }

  [[noreturn]] static void FailOnName(std::string_view what, std::string_view name) {
    throw Error({.where = fmt::format("{} {}", what, Quote(name)),
                 .text = name.empty() ? "a name was expected, found none"
                                      : "one of this name was expected, found two"});
  }

  // Below IR version 4 initializers are listed among the inputs; above it, an input with
  // an initializer has a default.
  void AddInputs() {
    for (const onnx::ValueInfoProto& input : proto_.input()) {
      CheckInput(input);
      const auto [value, is_new] = AddValue(input.name());
      if (input.name().empty() || At(value).is_input) FailOnName("input", input.name());
      if (!is_new) continue;
      At(value).is_input = true;
      graph_.inputs.push_back(value);
      model_->inputs.push_back(&input);
    }
  }

  void AddNodes() {
    for (const onnx::NodeProto& proto : proto_.node()) {
      if (IsWithoutResult(proto)) continue;
      const auto id = static_cast<NodeId>(graph_.nodes.size());
      Node& node = graph_.nodes.emplace_back();
      node.name = proto.name();
      node.domain = NormalDomain(proto.domain());
      node.op_type = NameOf(proto, node.domain);
      model_->nodes.push_back(&proto);
      if (proto.op_type().empty()) {
        throw Error({.where = Where(id), .text = "an operator was expected, found none"});
      }
      AddParts(proto, node);
      for (const std::string& output : proto.output()) AddNodeOutput(id, output);
    }
  }

  // Its outputs are all left out, so that nobody can ask for it.
  static bool IsWithoutResult(const onnx::NodeProto& proto) {
    const auto is_left_out = [](const std::string& output) { return output.empty(); };
    return proto.output_size() > 0 && std::ranges::all_of(proto.output(), is_left_out);
  }

  std::string_view NameOf(const onnx::NodeProto& proto, std::string_view domain) {
    if (domain.empty()) return proto.op_type();
    return *model_->op_types.insert(fmt::format("{}.{}", domain, proto.op_type())).first;
  }

  static void AddParts(const onnx::NodeProto& proto, Node& node) {
    node.attributes.reserve(static_cast<size_t>(proto.attribute_size()));
    for (const onnx::AttributeProto& attribute : proto.attribute()) {
      node.attributes.push_back(ToAttribute(attribute));
    }
    AppendMetadata(proto.metadata_props(), node.metadata);
  }

  void AddNodeOutput(NodeId id, std::string_view name) {
    Node& node = At(id, graph_.nodes);
    if (name.empty()) {
      node.outputs.push_back(kNoValue);
      return;
    }
    const auto [value, is_new] = AddValue(name);
    if (!is_new) FailOnSecondProducer(id, value);
    At(value).producer = id;
    node.outputs.push_back(value);
  }

  [[noreturn]] void FailOnSecondProducer(NodeId id, ValueId value) {
    const Value& taken = At(value);
    const std::string other = taken.producer != kNoNode ? Where(taken.producer)
                              : taken.is_input          ? "a graph input"
                                                        : "an initializer";
    throw Error({.where = Where(id),
                 .text = fmt::format("output {} should have one producer, found {} too",
                                     Quote(taken.name), other)});
  }

  void ReadInputs() {
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {
      const onnx::NodeProto& proto = model_->NodeOf(id);
      Node& node = At(id, graph_.nodes);
      node.inputs.reserve(static_cast<size_t>(proto.input_size()));
      for (const std::string& name : proto.input()) {
        node.inputs.push_back(name.empty() ? kNoValue : Read(id, name, "input"));
      }
      for (const std::string_view name : CapturedNames(proto)) {
        Read(id, name, "a sub-graph's input");
      }
    }
  }

  // Below opset 14 a batch norm that trains lists its four statistics, torch.onnx's instance norm
  // also beyond.  ONNX does not infer their shapes; exporters let nobody read them.
  void LeaveOutStatistics() {
    constexpr size_t kWithStatistics = 5;
    std::vector<bool> is_read(graph_.values.size());
    for (const Node& node : graph_.nodes) {
      for (const ValueId input : node.inputs) {
        if (input != kNoValue) is_read[Index(input)] = true;
      }
    }
    const auto is_wanted = [&](ValueId value) {
      return value != kNoValue && (is_read[Index(value)] || At(value).is_output);
    };
    for (Node& node : graph_.nodes) {
      const bool is_norm = node.op_type == "BatchNormalization";
      if (!is_norm || node.outputs.size() < kWithStatistics) continue;
      if (std::any_of(node.outputs.begin() + 1, node.outputs.end(), is_wanted)) continue;
      node.outputs.erase(node.outputs.begin() + 1, node.outputs.end());
    }
  }

  void CheckSignatures() {
    const auto& opsets = graph_.opsets;
    const auto own = std::ranges::find(opsets, std::string_view(), &OpsetImport::domain);
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {
      const Node& node = At(id, graph_.nodes);
      std::string wrong = WrongSignature(node, own == opsets.end() ? 0 : own->version);
      if (wrong.empty()) continue;
      const std::string op = node.name.empty() ? "" : fmt::format(" ({})", node.op_type);
      throw Error({.where = Where(id) + op, .text = std::move(wrong)});
    }
  }

  ValueId Read(NodeId reader, std::string_view name, std::string_view what) {
    const auto found = ids_.find(name);
    if (found == ids_.end()) throw DanglingName(Where(reader), what, name, graph_.values);
    const NodeId producer = At(found->second).producer;
    if (producer != kNoNode) reads_[Index(reader)].push_back(producer);
    return found->second;
  }

  void SortNodes() {
    const Sorted sorted = SortByNeeds(reads_);
    if (!sorted.cycle.empty()) FailOnCycle(sorted.cycle);
    if (std::is_sorted(sorted.order.begin(), sorted.order.end())) return;
    std::vector<Node> nodes;
    std::vector<const onnx::NodeProto*> protos;
    for (const NodeId old : sorted.order) {
      const auto id = static_cast<NodeId>(nodes.size());
      nodes.push_back(std::move(At(old, graph_.nodes)));
      protos.push_back(&model_->NodeOf(old));
      for (const ValueId output : nodes.back().outputs) {
        if (output != kNoValue) At(output).producer = id;
      }
    }
    graph_.nodes = std::move(nodes);
    model_->nodes = std::move(protos);
    graph_.notes.push_back("the file's nodes were not in topological order and were sorted");
  }

  // Against the direction of `needs`: from a node to one that reads it.
  [[noreturn]] void FailOnCycle(const std::vector<int32_t>& needs) {
    constexpr size_t kShown = 5;
    std::string names = Quote(DisplayName(graph_, needs.front()));
    for (size_t i = 1; i < needs.size(); ++i) {
      if (i >= kShown) {
        names = "… -> " + names;
        break;
      }
      names = Quote(DisplayName(graph_, needs[i])) + " -> " + names;
    }
    const std::string first = Quote(DisplayName(graph_, needs.front()));
    throw Error(
        {.where = Where(needs.front()),
         .text = fmt::format("a graph without cycles was expected, found {} -> {}", first, names)});
  }

  void AddOutputs() {
    for (const onnx::ValueInfoProto& output : proto_.output()) {
      const auto found = ids_.find(output.name());
      if (found == ids_.end()) throw DanglingName("graph", "output", output.name(), graph_.values);
      At(found->second).is_output = true;
      graph_.outputs.push_back(found->second);
    }
  }

  std::string Where(NodeId id) const {
    return fmt::format("node {}", Quote(DisplayName(graph_, id)));
  }

  std::shared_ptr<OnnxModel> model_;
  const onnx::GraphProto& proto_;
  Graph graph_;
  std::unordered_map<std::string_view, ValueId> ids_;
  std::vector<std::vector<NodeId>> reads_;  // by reader: the nodes whose outputs it reads
};

}  // namespace

Graph BuildGraph(onnx::ModelProto proto, std::string path, std::vector<std::string> notes) {
  auto model = std::make_shared<OnnxModel>();
  model->proto = std::move(proto);
  try {
    Graph graph = GraphBuilder(std::move(model)).Build();
    graph.path = path;
    graph.notes.insert(graph.notes.begin(), notes.begin(), notes.end());
    return graph;
  } catch (const Error& error) {
    if (!error.parts().file.empty()) throw;
    Error::Parts parts = error.parts();
    parts.file = std::move(path);
    throw Error(std::move(parts));
  }
}

Graph RebuildGraph(onnx::ModelProto changed, const Graph& graph) {
  Graph rebuilt = BuildGraph(std::move(changed), graph.path, graph.notes);
  rebuilt.digest = graph.digest;
  rebuilt.diagonals = graph.diagonals;
  return rebuilt;
}

}  // namespace onnxfit
