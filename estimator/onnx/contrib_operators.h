// Operators that ONNX Runtime's optimizer writes and ONNX has no schema for: what they were made
// of, and the types of what they make.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace onnxfit {

// Operators that ONNX Runtime's optimizer has fused are taken apart again: PyTorch runs the parts.
// Replaces FusedMatMul, BiasGelu, SkipLayerNormalization and others (the rows of fused_parts.cc)
// by the nodes that the optimizer made them of, named after what they make and read, as the
// exporter had named them: so that what recovery knows of such files holds again.  Returns
// `graph` itself where it has none of them.  What reads types that `binding` does not lead to is
// left as it is.  Throws Error as BindShapes does for `binding`.  O(nodes).
Graph TakeFusedApart(Graph graph, const DimBinding& binding);

// Of operators that stand for several nodes of the file.
inline constexpr std::string_view kOwnDomain = "pkg.onnxfit";

// The nodes that exporters write for torch.nn.EmbeddingBag, a Loop over its bags among them, become
// one, pkg.onnxfit.EmbeddingBag (weight, indices, offsets, weights of indices): torch.export's by
// what they say of their call, TorchScript's by their pattern.  Returns `graph` itself where it has
// none.  O(nodes).
Graph JoinEmbeddingBags(Graph graph);

// --- Types; internal to the room onnx/ -----------------------------------------

// One node, all of whose tensors have known dimensions.
struct ContribCall {
  const onnx::NodeProto* node = nullptr;
  std::vector<std::optional<TensorType>> inputs;  // nullopt: left out

  bool has(size_t input) const { return input < inputs.size() && inputs[input].has_value(); }
  const TensorType& in(size_t input) const { return *inputs[input]; }
};

// One for each output; fewer where nothing is known of the further ones.
using ContribTypes = std::vector<TensorType>;

struct ContribRow {
  std::string_view op_type;
  size_t required = 1;  // inputs that it cannot do without
  // Empty where the inputs do not go together.
  ContribTypes (*types)(const ContribCall&) = nullptr;
};

// The row of an operator of com.microsoft, or of those that ONNX Runtime writes into ONNX's own
// domain (SimplifiedLayerNormalization); null for others.  O(rows).
const ContribRow* FindContrib(std::string_view domain, std::string_view op_type);

}  // namespace onnxfit
