// How a file was exported.  Internal to the room program/.
#pragma once

#include "estimator/graph/graph.h"

namespace onnxfit {

// True where the file has operators that only an export in training mode writes: what is
// not in it was not in the module.  O(nodes).
bool IsTrainingExport(const Graph& graph);

}  // namespace onnxfit
