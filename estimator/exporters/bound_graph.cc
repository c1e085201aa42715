#include "estimator/exporters/bound_graph.h"

#include <algorithm>
#include <variant>

#include "estimator/base/index.h"

namespace onnxfit {

BoundGraph::BoundGraph(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes)
    : graph_(graph), metadata_(metadata), shapes_(shapes) {
  readers_ = FindReaders(/*of_elements=*/true);
  all_readers_ = FindReaders(/*of_elements=*/false);
  FindModules();
}

namespace {

// The inputs whose elements a node reads are its first ones.
size_t ReadInputsOf(const Node& node, bool of_elements) {
  if (!of_elements) return node.inputs.size();
  if (node.op_type == "Shape") return 0;
  return node.op_type == "CastLike" ? 1 : node.inputs.size();
}

}  // namespace

// Counted, then sorted into their places.
BoundGraph::Readers BoundGraph::FindReaders(bool of_elements) const {
  Readers readers;
  readers.first.resize(graph_.values.size() + 1);
  const auto each = [&](auto take) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (size_t k = 0; k < ReadInputsOf(node, of_elements); ++k) {
        if (node.inputs[k] != kNoValue) take(Index(node.inputs[k]), static_cast<NodeId>(i));
      }
    }
  };
  each([&](size_t value, NodeId) { ++readers.first[value + 1]; });
  for (size_t i = 1; i < readers.first.size(); ++i) readers.first[i] += readers.first[i - 1];
  readers.nodes.resize(readers.first.back());
  std::vector<size_t> next = readers.first;
  each([&](size_t value, NodeId node) { readers.nodes[next[value]++] = node; });
  return readers;
}

void BoundGraph::FindModules() {
  const auto nodes = static_cast<NodeId>(graph_.nodes.size());
  ModuleId before = kOutside;
  NodeId next = 0;  // the first behind that has one
  for (NodeId node = 0; node < nodes; ++node) {
    next = std::max(next, node);
    while (next < nodes && metadata_.ModuleOf(next) == kOutside) ++next;
    const ModuleId behind = next < nodes ? metadata_.ModuleOf(next) : kOutside;
    around_.push_back(FindModuleAround(node, before, behind));
    if (next == node) before = behind;
  }
}

ModuleId BoundGraph::FindModuleAround(NodeId node, ModuleId before, ModuleId behind) const {
  const ModuleId own = metadata_.ModuleOf(node);
  if (own != kOutside) return own;
  if (metadata_.groups.empty()) {
    const bool is_outermost = At(node).name.starts_with('/');
    return is_outermost ? kOutside : metadata_.modules.Common(before, behind);
  }
  for (const ValueId output : At(node).outputs) {
    if (output == kNoValue) continue;
    for (const NodeId reader : AllReadersOf(output)) {
      if (metadata_.ModuleOf(reader) != kOutside) return metadata_.ModuleOf(reader);
    }
  }
  return kOutside;
}

NodeId BoundGraph::Maker(ValueId value, std::string_view op_type) const {
  if (value == kNoValue) return kNoNode;
  const NodeId producer = graph_.values[Index(value)].producer;
  if (producer == kNoNode) return kNoNode;
  return At(producer).op_type == op_type ? producer : kNoNode;
}

NodeId BoundGraph::Inner(ValueId value, std::string_view op_type) const {
  if (value == kNoValue || graph_.values[Index(value)].is_output) return kNoNode;
  return ReadersOf(value).size() == 1 ? Maker(value, op_type) : kNoNode;
}

ValueId BoundGraph::MultipliedBy(ValueId value) const {
  if (value == kNoValue || ReadersOf(value).size() != 1) return kNoValue;
  const Node& mul = At(ReadersOf(value)[0]);
  if (mul.op_type != "Mul" || mul.inputs.size() != 2) return kNoValue;
  return mul.inputs[0] == value ? mul.inputs[1] : mul.inputs[0];
}

size_t BoundGraph::InnerSide(const Node& node, std::string_view op_type) const {
  for (size_t side = 0; side < 2 && node.inputs.size() == 2; ++side) {
    if (Inner(node.inputs[side], op_type) != kNoNode) return side;
  }
  return 2;
}

double BoundGraph::NumberOf(ValueId value) const {
  return value == kNoValue ? 0 : shapes_.known_scalar[Index(value)].value_or(0);
}

bool BoundGraph::IsNumber(ValueId value) const {
  return value != kNoValue && Numel(DimsOf(value)) == 1;
}

const KnownTensor* BoundGraph::Known(ValueId value) const {
  if (value == kNoValue) return nullptr;
  const auto& known = shapes_.known[Index(value)];
  return known.has_value() ? &*known : nullptr;
}

std::string_view BoundGraph::NameOf(ValueId value) const {
  return graph_.values[Index(value)].name;
}

bool BoundGraph::IsStored(ValueId value, size_t rank) const {
  return value != kNoValue && graph_.values[Index(value)].initializer >= 0 &&
         DimsOf(value).size() == rank;
}

const TensorType& BoundGraph::TypeOf(ValueId value) const {
  return shapes_.types[Index(value)].tensor;
}

std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* ints =
      attribute == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&attribute->value);
  return ints == nullptr ? std::vector<int64_t>() : *ints;
}

}  // namespace onnxfit
