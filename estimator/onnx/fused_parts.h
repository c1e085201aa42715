// Operators that ONNX Runtime's optimizer has fused, taken apart again: PyTorch runs the parts.
#pragma once

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// Replaces FusedMatMul, BiasGelu, SkipLayerNormalization and others (the rows of fused_parts.cc)
// by the nodes that the optimizer made them of, named after what they make and read, as the
// exporter had named them: so that what recovery knows of such files holds again.  Returns
// `graph` itself where it has none of them.  What reads types that `binding` does not lead to is
// left as it is.  Throws Error as BindShapes does for `binding`.  O(nodes).
Graph TakeFusedApart(Graph graph, const DimBinding& binding);

}  // namespace onnxfit
