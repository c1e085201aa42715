// Batch norms that an export for inference has left as a product and a sum for each channel.
// Internal to the room recover/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/bound_graph.h"

namespace onnxfit {

struct AffineBatchNorm {
  NodeId scale = kNoNode;  // Mul
  NodeId shift = kNoNode;  // Add; kNoNode where it was zero, as in a new model, and left out
  ValueId input = kNoValue;
  std::string module;  // "model/conv1_bn": names its tensors
  int64_t channels = 0;
};

// Mul, and Add behind it, with numbers for each channel, that go by a name of a batch norm
// (fold_marks.h); without one, both of them behind a convolution, where the numbers have no name
// of PyTorch's: a module has a batch norm there, or one that is frozen
// (torchvision.ops.FrozenBatchNorm2d), which is what the file says.
// O(nodes).
std::vector<AffineBatchNorm> FindAffineBatchNorms(const BoundGraph& bound);

}  // namespace onnxfit
