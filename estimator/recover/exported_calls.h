// Calls of PyTorch's that torch.export wrote as several nodes, by what it says of them.
// Internal to the room recover/.
#pragma once

#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// The groups of nodes whose call has a row in the table and whose operands are all found:
// by name, or, where the exporter has removed or renamed one, as what the nodes read in its
// place.  A group with more than one result outside of it is left as its nodes.
// In the order of groups.  O(nodes).
std::vector<Rewritten> FindExportedCalls(const BoundGraph& bound);

}  // namespace onnxfit
