// How a file was exported.  Internal to the room program/.
#pragma once

#include "estimator/graph/graph.h"

namespace onnxfit {

// True where the file shows what an export for inference would have lost (dropouts, noise,
// batch norms that compute statistics): what is not in it was not in the module.  O(nodes).
bool IsTrainingExport(const Graph& graph);

}  // namespace onnxfit
