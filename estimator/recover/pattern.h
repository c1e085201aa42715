// Questions that patterns over nodes ask of a graph.  Internal to the room recover/.
#pragma once

#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// Walks from a node to those that feed it.
class Pattern {
 public:
  Pattern(const Graph& graph, const Shapes& shapes);

  const Graph& graph() const { return graph_; }
  const Node& At(NodeId node) const;

  // The node of type `op_type`, of ONNX's own domain, that makes `value`, or kNoNode.
  NodeId Maker(ValueId value, std::string_view op_type) const;
  // The same, where nobody but the one who asks reads its result.
  NodeId Inner(ValueId value, std::string_view op_type) const;
  // Those that read elements of `value`: not its shape alone (Shape), nor its type
  // (CastLike's second input).
  const std::vector<NodeId>& ReadersOf(ValueId value) const;

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
  const Shapes& shapes_;
  std::vector<std::vector<NodeId>> readers_;  // by value, once for each input that reads it
};

// The integers of attribute `name`, or none.
std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name);

}  // namespace onnxfit
