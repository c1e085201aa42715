// Batch norms that an export for inference has folded into the convolutions before them.
// Internal to the room program/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/graph/shapes.h"
#include "estimator/program/exporter_metadata.h"

namespace onnxfit {

struct FoldedBatchNorm {
  NodeId convolution = kNoNode;
  std::string convolution_module;  // "layer1.0.conv1"
  std::string module;              // of the batch norm, "layer1.0.bn1": names its tensors
  int64_t channels = 0;
  bool convolution_has_bias = false;  // one of its own: the file's is the folded one
};

// Signals, surest first: the call that the node came from is a batch norm; the result is
// called "getitem…", as that of a batch norm (torch.export); the weight has no name of a
// module but "onnx::Conv_193" (TorchScript).  Whether the convolution had a bias is in
// the signature or in the bias's name; where neither says so, `bias_if_unknown`.
// O(nodes + signature).
std::vector<FoldedBatchNorm> FindFoldedBatchNorms(const Graph& graph,
                                                  const ExporterMetadata& metadata,
                                                  const Shapes& shapes, bool bias_if_unknown);

}  // namespace onnxfit
