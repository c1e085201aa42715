#include "estimator/exporters/exported_groups.h"

#include <algorithm>
#include <iterator>

#include "estimator/base/index.h"

namespace onnxfit {

ExportedGroups::ExportedGroups(const BoundGraph& bound) : bound_(bound) {
  const ExporterMetadata& metadata = bound.metadata();
  const std::vector<Value>& values = bound.graph().values;
  for (const SignatureEntry& entry : metadata.signature) targets_[entry.name] = entry.target;
  for (size_t i = 0; i < values.size(); ++i) {
    values_.emplace(values[i].name, static_cast<ValueId>(i));
  }
  for (int32_t i = 0; i < count(); ++i) groups_.emplace(At(i).call.name, i);
}

int32_t ExportedGroups::Find(std::string_view name) const {
  const auto found = groups_.find(name);
  return found == groups_.end() ? -1 : found->second;
}

ValueId ExportedGroups::ValueOf(std::string_view name) const {
  const auto target = targets_.find(name);
  const auto value = values_.find(target == targets_.end() ? name : target->second);
  return value == values_.end() ? kNoValue : value->second;
}

std::vector<NodeId> ExportedGroups::NodesOf(int32_t index) const {
  std::vector<NodeId> nodes;
  for (const NodeId node : At(index).nodes) {
    if (!IsHost(node) && !IsSharedWeight(node)) nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeId> ExportedGroups::AnyNodesOf(int32_t index) const {
  std::vector<NodeId> nodes = NodesOf(index);
  if (!nodes.empty()) return nodes;
  std::ranges::copy_if(At(index).nodes, std::back_inserter(nodes),
                       [&](NodeId node) { return !IsSharedWeight(node); });
  return nodes;
}

bool ExportedGroups::IsHost(NodeId id) const {
  const Shapes& shapes = bound_.shapes();
  return std::ranges::all_of(bound_.At(id).outputs, [&](ValueId value) {
    return value == kNoValue || shapes.known[Index(value)].has_value() ||
           shapes.known_scalar[Index(value)].has_value();
  });
}

bool ExportedGroups::IsSharedWeight(NodeId id) const {
  const Node& node = bound_.At(id);
  return node.op_type == "Transpose" &&
         bound_.graph().values[Index(node.inputs[0])].initializer >= 0 &&
         IsReadOutside(node.outputs[0], bound_.metadata().GroupOf(id));
}

bool ExportedGroups::IsReadOutside(ValueId value, int32_t index) const {
  if (value == kNoValue) return false;
  return bound_.graph().values[Index(value)].is_output ||
         std::ranges::any_of(bound_.AllReadersOf(value),
                             [&](NodeId node) { return !IsIn(node, index); });
}

NodeId ExportedGroups::ResultOf(int32_t index, const std::vector<NodeId>& nodes) const {
  NodeId result = kNoNode;
  for (const NodeId node : nodes) {
    const std::vector<ValueId>& outputs = bound_.At(node).outputs;
    const auto leaves =
        std::ranges::count_if(outputs, [&](ValueId value) { return IsReadOutside(value, index); });
    if (leaves == 0) continue;
    if (leaves > 1 || result != kNoNode || !IsReadOutside(outputs[0], index)) return kNoNode;
    result = node;
  }
  return result;
}

}  // namespace onnxfit
