// A file whose batch (or another size) is a number, for another number: constants that carry
// the old one are found and follow.
#pragma once

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit {

// Returns `graph` with what carries sizes that `binding` changes written anew: targets of
// Reshape, sizes of Resize, bounds of Slice and Split, axes of Squeeze, and tensors that were
// expanded over the batch before the exporter folded them (an Expand goes in front of the node
// that reads them).  What carries the batch is told by evidence alone: the graph is inferred
// with the file's sizes and with the new ones side by side, so that every dimension is known to
// follow or not; a constant whose entry takes the place of one that follows is scaled with it.
// Returns `graph` itself where `binding` keeps the file's sizes, or where the graph does not
// even hold with these (BindShapes says why).
// Throws Error at the first node that cannot follow, with the line of Python that exports it
// with a free dimension.  O(nodes).
Graph Rebind(Graph graph, const DimBinding& binding, Warnings& warnings);

}  // namespace onnxfit
