// If and Loop become plain nodes, so that later rooms see a flat graph.
#pragma once

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// Replaces each If by the branch that runs under `binding` where its condition follows
// from shapes and constants; otherwise by the branch whose outputs are larger, with a
// warning.  A Loop is replaced by its body, once, with a warning that says how often it
// runs where that is known.  Returns `graph` itself where it has neither.
// Throws Error as BindShapes does.  O(nodes), bodies included.
Graph InlineControlFlow(Graph graph, const DimBinding& binding, Warnings& warnings);

}  // namespace onnxfit
