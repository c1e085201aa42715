#include <fmt/format.h>
#include <fmt/ranges.h>

#include "estimator/base/index.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {
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

}  // namespace onnxfit
