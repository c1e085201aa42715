// Weights of linear layers that an exporter stored transposed, without their names.  Internal
// to the room recover/.
#pragma once

#include <string>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {

struct FoldedWeight {
  ValueId value = kNoValue;   // "onnx::MatMul_123", [k, n] of a weight [n, k]
  std::string name;           // "encoder.fc.weight", by the scope of the product
  ValueId before = kNoValue;  // the tensor that it stands in front of in the module's order,
                              // kNoValue: behind all of them
  ValueId tied = kNoValue;    // the embedding [n, k] that it may be a copy of
};

// TorchScript's exporter computes the transpose of what a product of more than two dimensions
// multiplies with, and lists the result behind all that kept its name.  A weight stands in
// front of its bias; without one, in front of what its module holds beside it (the position
// bias of T5's attention) and of a norm beside its module in a numbered layer, which
// transformers lists last; else in front of what is used later.
// A weight that makes an output, or does so with a sum that is not of its module, may be that
// of an embedding.
// In the order of the file.  O(initializers² of nameless ones).
std::vector<FoldedWeight> FindFoldedWeights(const Graph& graph, const ExporterMetadata& metadata);

}  // namespace onnxfit
