// How a file was exported.  Internal to the room recover/.
#pragma once

#include "estimator/onnx/graph.h"

namespace onnxfit {

// True where the file shows what an export for inference would have lost (dropouts, noise,
// batch norms that compute statistics): what is not in it was not in the module.  O(nodes).
bool IsTrainingExport(const Graph& graph);

// True where a file of TorchScript's exporter transposes weights as it runs.  The exporter folds
// that unless it is told do_constant_folding=False, as torch.onnx asks of exports in training mode
// (2.11): such a file without dropouts is likely of a module that had none.  O(nodes).
bool IsUnfoldedExport(const Graph& graph);

}  // namespace onnxfit
