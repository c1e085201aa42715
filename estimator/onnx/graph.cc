#include "estimator/onnx/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/text.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {

bool HasResult(const Node& node) {
  return std::ranges::any_of(node.outputs, [](ValueId value) { return value != kNoValue; });
}

const Attribute* FindAttribute(const Node& node, std::string_view name) {
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

int64_t IntAttribute(const Node& node, std::string_view name, int64_t absent) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* value = attribute == nullptr ? nullptr : std::get_if<int64_t>(&attribute->value);
  return value == nullptr ? absent : *value;
}

double FloatAttribute(const Node& node, std::string_view name, double absent) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* value = attribute == nullptr ? nullptr : std::get_if<double>(&attribute->value);
  return value == nullptr ? absent : *value;
}

std::string_view FindMetadata(const Metadata& metadata, std::string_view key) {
  for (const auto& [entry, value] : metadata) {
    if (entry == key) return value;
  }
  return {};
}

std::string DisplayName(const Graph& graph, NodeId node) {
  const Node& found = graph.nodes[Index(node)];
  if (!found.name.empty()) return std::string(found.name);
  return fmt::format("{} #{}", found.op_type, node);
}

std::string NodeText(const Graph& graph, NodeId node) {
  const Node& found = graph.nodes[Index(node)];
  return found.name.empty() ? "node " + Quote(DisplayName(graph, node))
                            : fmt::format("node {} ({})", Quote(found.name), found.op_type);
}

// --- As text -------------------------------------------------------------------

namespace {

std::string_view NameOf(const Graph& graph, ValueId value) {
  return value == kNoValue ? std::string_view() : graph.values[Index(value)].name;
}

std::string NamesOf(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string_view> names;
  for (const ValueId value : values) names.push_back(NameOf(graph, value));
  return fmt::format("{}", fmt::join(names, ", "));
}

struct ValueText {
  std::string operator()(std::monostate) const { return ""; }
  template <typename T>
  std::string operator()(const T& value) const {
    return fmt::format("={}", value);
  }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    return fmt::format("=[{}]", fmt::join(values, ", "));
  }
};

std::string Attributes(const Node& node) {
  std::vector<std::string> texts;
  for (const Attribute& attribute : node.attributes) {
    texts.push_back(std::string(attribute.name) + std::visit(ValueText(), attribute.value));
  }
  return texts.empty() ? "" : fmt::format(" <{}>", fmt::join(texts, ", "));
}

}  // namespace

std::string ToString(const Graph& graph) {
  std::string text;
  for (const ValueId input : graph.inputs) text += fmt::format("input {}\n", NameOf(graph, input));
  for (const Initializer& initializer : graph.initializers) {
    text += fmt::format("initializer {} {}{}\n", NameOf(graph, initializer.value),
                        ToString(initializer.type), initializer.external ? " external" : "");
  }
  for (const Node& node : graph.nodes) {
    text += fmt::format("{} = {}({}){}\n", NamesOf(graph, node.outputs), node.op_type,
                        NamesOf(graph, node.inputs), Attributes(node));
  }
  for (const ValueId output : graph.outputs) {
    text += fmt::format("output {}\n", NameOf(graph, output));
  }
  return text;
}

// --- A graph of inputs alone ---------------------------------------------------

namespace {

constexpr int kInputsIrVersion = 8;
constexpr int kInputsOpset = 17;

void Declare(const DeclaredTensor& input, onnx::GraphProto& graph) {
  onnx::ValueInfoProto& info = *graph.add_input();
  info.set_name(input.name);
  onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(input.dtype));
  type.mutable_shape();
  for (const DeclaredDim& dim : input.dims) {
    auto& declared = *type.mutable_shape()->add_dim();
    dim.name.empty() ? declared.set_dim_value(dim.size) : declared.set_dim_param(dim.name);
  }
}

}  // namespace

// A graph has to have a node: the first input is returned as it is.
Graph GraphOfInputs(const std::string& path, const std::vector<DeclaredTensor>& inputs) {
  if (inputs.empty()) {
    throw Error({.file = path, .text = "a model that takes a tensor was expected, found none"});
  }
  onnx::ModelProto model;
  model.set_ir_version(kInputsIrVersion);
  model.add_opset_import()->set_version(kInputsOpset);
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const DeclaredTensor& input : inputs) Declare(input, graph);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Identity");
  node.add_input(inputs[0].name);
  node.add_output("output of " + inputs[0].name);
  graph.add_output()->set_name(node.output(0));
  return BuildGraph(std::move(model), path);
}

// --- What a graph is made of ---------------------------------------------------

namespace {

std::string DimsText(const onnx::TensorShapeProto& shape) {
  std::string text;
  for (const auto& dim : shape.dim()) {
    if (!text.empty()) text += ',';
    text += dim.has_dim_param() ? dim.dim_param() : fmt::format("{}", dim.dim_value());
  }
  return text;
}

}  // namespace

std::string StructureDigest(const Graph& graph) {
  const onnx::GraphProto& proto = graph.model->proto.graph();
  std::string text;
  const auto out = std::back_inserter(text);
  for (const onnx::ValueInfoProto& input : proto.input()) {
    const onnx::TypeProto::Tensor& type = input.type().tensor_type();
    fmt::format_to(out, "input {} {} {}\n", input.name(), type.elem_type(), DimsText(type.shape()));
  }
  for (const onnx::TensorProto& tensor : proto.initializer()) {
    fmt::format_to(out, "initializer {} {} {}\n", tensor.name(), tensor.data_type(),
                   fmt::join(tensor.dims(), ","));
  }
  for (const onnx::NodeProto& node : proto.node()) {
    fmt::format_to(out, "node {} {} {} {}\n", node.domain(), node.op_type(),
                   fmt::join(node.input(), ","), fmt::join(node.output(), ","));
  }
  for (const onnx::ValueInfoProto& output : proto.output()) {
    fmt::format_to(out, "output {}\n", output.name());
  }
  return Digest(text);
}

// --- Transposes ----------------------------------------------------------------

namespace {

const std::string* KnownDiagonal(const Graph& graph, ValueId value) {
  const auto found = graph.diagonals.find(graph.values[Index(value)].name);
  return found == graph.diagonals.end() ? nullptr : &found->second;
}

}  // namespace

std::optional<bool> AreTransposes(const Graph& graph, ValueId a, ValueId b) {
  const std::string* of_a = KnownDiagonal(graph, a);
  const std::string* of_b = KnownDiagonal(graph, b);
  if (of_a == nullptr || of_b == nullptr) return std::nullopt;
  return *of_a == *of_b;
}

}  // namespace onnxfit
