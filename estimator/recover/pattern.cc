#include "estimator/recover/pattern.h"

#include <variant>

#include "estimator/base/index.h"

namespace onnxfit {

Pattern::Pattern(const Graph& graph, const Shapes& shapes)
    : graph_(graph), shapes_(shapes), readers_(graph.values.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op_type == "Shape") continue;
    const bool is_cast_like = node.op_type == "CastLike";
    for (size_t k = 0; k < (is_cast_like ? 1 : node.inputs.size()); ++k) {
      if (node.inputs[k] == kNoValue) continue;
      readers_[Index(node.inputs[k])].push_back(static_cast<NodeId>(i));
    }
  }
}

const Node& Pattern::At(NodeId node) const { return graph_.nodes[Index(node)]; }

NodeId Pattern::Maker(ValueId value, std::string_view op_type) const {
  if (value == kNoValue) return kNoNode;
  const NodeId producer = graph_.values[Index(value)].producer;
  if (producer == kNoNode) return kNoNode;
  return At(producer).op_type == op_type ? producer : kNoNode;
}

NodeId Pattern::Inner(ValueId value, std::string_view op_type) const {
  if (value == kNoValue || graph_.values[Index(value)].is_output) return kNoNode;
  return ReadersOf(value).size() == 1 ? Maker(value, op_type) : kNoNode;
}

const std::vector<NodeId>& Pattern::ReadersOf(ValueId value) const {
  return readers_[Index(value)];
}

ValueId Pattern::MultipliedBy(ValueId value) const {
  if (value == kNoValue || ReadersOf(value).size() != 1) return kNoValue;
  const Node& mul = At(ReadersOf(value)[0]);
  if (mul.op_type != "Mul" || mul.inputs.size() != 2) return kNoValue;
  return mul.inputs[0] == value ? mul.inputs[1] : mul.inputs[0];
}

size_t Pattern::InnerSide(const Node& node, std::string_view op_type) const {
  for (size_t side = 0; side < 2 && node.inputs.size() == 2; ++side) {
    if (Inner(node.inputs[side], op_type) != kNoNode) return side;
  }
  return 2;
}

double Pattern::NumberOf(ValueId value) const {
  return value == kNoValue ? 0 : shapes_.known_scalar[Index(value)].value_or(0);
}

bool Pattern::IsNumber(ValueId value) const {
  return value != kNoValue && Numel(DimsOf(value)) == 1;
}

const KnownTensor* Pattern::Known(ValueId value) const {
  if (value == kNoValue) return nullptr;
  const auto& known = shapes_.known[Index(value)];
  return known.has_value() ? &*known : nullptr;
}

std::string_view Pattern::NameOf(ValueId value) const { return graph_.values[Index(value)].name; }

bool Pattern::IsStored(ValueId value, size_t rank) const {
  return value != kNoValue && graph_.values[Index(value)].initializer >= 0 &&
         DimsOf(value).size() == rank;
}

const TensorType& Pattern::TypeOf(ValueId value) const {
  return shapes_.types[Index(value)].tensor;
}

std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* ints =
      attribute == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&attribute->value);
  return ints == nullptr ? std::vector<int64_t>() : *ints;
}

}  // namespace onnxfit
