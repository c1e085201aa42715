// Tensors of the module that an exporter has merged or dropped.  Internal to program/.
#pragma once

#include "estimator/onnx/graph.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {

// Gives every parameter and buffer that the file still names an initializer of its own, and
// lets its node read that.  Exporters keep one of several tensors with equal values, and drop
// biases of zeros, as every newly made model has them:
//   TorchScript writes `b = Identity (a)`, `a` an initializer; where `a` is the transpose of
//     a weight, both are that weight;
//   torch.export names %p_b in the call that a node came from, and the node reads `a`, or
//   nothing in the place of a bias.
// A view of a parameter that the exporter has computed ("view_1") is that parameter.
// What a call names and the exporter has computed anew (a transposed weight) gets the
// module's name, and so does what was expanded to the file's batch (a class token).  Tied
// parameters stay one: nothing names the second. Adds values and initializers, no node; a note for
// -v.  O(nodes + signature).
void RestoreTensors(Graph& graph, const ExporterMetadata& metadata);

}  // namespace onnxfit
