// Batch norms that were folded into the convolutions before them: by PyTorch's exporters, or by
// another tool before or after.  Internal to the room recover/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/onnx/graph.h"
#include "estimator/recover/bound_graph.h"

namespace onnxfit {

struct FoldedBatchNorm {
  NodeId convolution = kNoNode;
  std::string convolution_module;  // "layer1.0.conv1"
  std::string module;              // of the batch norm, "layer1.0.bn1": names its tensors
  int64_t channels = 0;
  bool convolution_has_bias = false;  // one of its own: the file's is the folded one
};

struct FoldedBatchNorms {
  std::vector<FoldedBatchNorm> folded;
  // Whether the convolutions' biases may be folded batch norms and no name says so; and, where
  // the blocks around them look like it, by what: "a convolution, an activation called act".
  // Empty: they may as well be biases, and none of them is in `folded`.
  bool in_doubt = false;
  std::string shape;
};

// Signals, surest first: the call that the node came from is a batch norm; the result is
// called "getitem…", as that of a batch norm (torch.export); the weight has no name of a
// module but "onnx::Conv_193" (TorchScript); a name that another tool gives to what it folded
// (fold_marks.h).  Without any of them, in a file without any norm, the shapes of blocks that
// are built with batch norms (normed_blocks.h).
// Whether the convolution had a bias is in the signature or in the bias's name; where neither
// says so, `assumed.conv_bias`.
// With BatchNormUse::kRestore, behind every other convolution too that has a bias and no batch
// norm behind it; that bias is then taken for the folded one.
// O(nodes + signature).
FoldedBatchNorms FindFoldedBatchNorms(const BoundGraph& bound, const TrainingSettings& settings);

}  // namespace onnxfit
