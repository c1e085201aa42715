// The nodes of an ONNX file by the call of torch.export's that they came from.  Internal to
// recovery.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

class ExportedGroups {
 public:
  // `bound` must outlive it.  O(values).
  explicit ExportedGroups(const BoundGraph& bound);

  const BoundGraph& bound() const { return bound_; }
  const FxGroup& At(int32_t index) const {
    return bound_.metadata().groups[static_cast<size_t>(index)];
  }
  int32_t count() const { return static_cast<int32_t>(bound_.metadata().groups.size()); }

  // The group of the call that others refer to as `name`, -1: none.
  int32_t Find(std::string_view name) const;
  // A value of the graph, or a tensor of the module under its name there; kNoValue where the
  // exporter has removed or renamed it.
  ValueId ValueOf(std::string_view name) const;
  // Those that run on the device, and are this call's alone.
  std::vector<NodeId> NodesOf(int32_t index) const;
  // The same, or all that are this call's alone where what it makes is known: the device may make
  // that all the same.
  std::vector<NodeId> AnyNodesOf(int32_t index) const;

  // The line of the source that made the call; "" where the file has none.
  std::string_view LineOf(int32_t index) const {
    return bound_.metadata().LinesOf(At(index).nodes.front()).innermost;
  }

  // The transpose of a weight that calls of one module share: the exporter writes it once
  // (onnxscript's CommonSubexpressionEliminationPass), under the name of the first.
  bool IsSharedWeight(NodeId id) const;
  bool IsIn(NodeId node, int32_t index) const { return bound_.metadata().GroupOf(node) == index; }
  // By a node of another group, or the model's caller.
  bool IsReadOutside(ValueId value, int32_t index) const;
  // The only one of `nodes` that others, or the model's caller, read of; kNoNode where there are
  // more.
  NodeId ResultOf(int32_t index, const std::vector<NodeId>& nodes) const;

 private:
  bool IsHost(NodeId id) const;

  const BoundGraph& bound_;
  std::unordered_map<std::string_view, std::string_view> targets_;  // of the signature, by name
  std::unordered_map<std::string_view, ValueId> values_;
  std::unordered_map<std::string_view, int32_t> groups_;
};

}  // namespace onnxfit
