#include "estimator/onnx/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/base/quote.h"

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

}  // namespace onnxfit
