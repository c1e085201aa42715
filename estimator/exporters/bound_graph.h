// A graph whose dimensions are bound, with what its exporter says of it and who reads what: what
// recovery asks.  Internal to recovery.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

class BoundGraph {
 public:
  // All must outlive it.  O(nodes).
  BoundGraph(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes);

  const Graph& graph() const { return graph_; }
  const ExporterMetadata& metadata() const { return metadata_; }
  const Shapes& shapes() const { return shapes_; }
  const Node& At(NodeId node) const { return graph_.nodes[static_cast<size_t>(node)]; }
  // REQUIRES: it is one of the graph's.
  NodeId IdOf(const Node& node) const { return static_cast<NodeId>(&node - graph_.nodes.data()); }

  // The module around `node`; where the file does not say it, that of what is near: of a node of
  // which torch.export says nothing (a Split), of the first that reads it; of a function that
  // torch.jit.script made, whose nodes have names without modules, its caller's, which is what the
  // nearest ones before and behind it have in common.
  ModuleId ModuleAround(NodeId node) const { return around_[static_cast<size_t>(node)]; }

  // The node of type `op_type`, of ONNX's own domain, that makes `value`, or kNoNode.
  NodeId Maker(ValueId value, std::string_view op_type) const;
  // The same, where nobody but the one who asks reads its result.
  NodeId Inner(ValueId value, std::string_view op_type) const;
  // Those that read elements of `value`: not its shape alone (Shape), nor its type
  // (CastLike's second input).
  std::span<const NodeId> ReadersOf(ValueId value) const { return readers_.Of(value); }
  // Those that read it in any way.
  std::span<const NodeId> AllReadersOf(ValueId value) const { return all_readers_.Of(value); }

  // The other operand where a Mul is all that reads `value`, else kNoValue.
  ValueId MultipliedBy(ValueId value) const;
  // The side of a node's two inputs that an `op_type` makes for it alone; 2 for neither.
  size_t InnerSide(const Node& node, std::string_view op_type) const;

  // The float that `value` is known to be, else 0.
  double NumberOf(ValueId value) const;
  // A single number, whether known or not.
  bool IsNumber(ValueId value) const;
  // The integers or bools of `value` where they follow from shapes and constants, or null.
  const KnownTensor* Known(ValueId value) const;
  std::string_view NameOf(ValueId value) const;
  // A tensor of the file with so many dimensions.
  bool IsStored(ValueId value, size_t rank) const;
  // REQUIRES: `value` is not kNoValue.
  const TensorType& TypeOf(ValueId value) const;
  const Dims& DimsOf(ValueId value) const { return TypeOf(value).dims; }

 private:
  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  // By value: nodes, in the graph's order, one behind another; once for each input that reads it.
  struct Readers {
    std::vector<size_t> first;  // by value, and the end
    std::vector<NodeId> nodes;

    std::span<const NodeId> Of(ValueId value) const {
      const auto at = static_cast<size_t>(value);
      return std::span(nodes).subspan(first[at], first[at + 1] - first[at]);
    }
  };
  Readers FindReaders(bool of_elements) const;
  ModuleId FindModuleAround(NodeId node, ModuleId before, ModuleId behind) const;
  void FindModules();

  Readers readers_;
  Readers all_readers_;
  std::vector<ModuleId> around_;  // by node
};

// The integers of attribute `name`, or none.
std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name);

}  // namespace onnxfit
