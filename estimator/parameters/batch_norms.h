// Batch norms that a file does not have as such: folded into the convolutions before them, by
// PyTorch's exporters or by another tool before or after, or left as a product and a sum for each
// channel.  Internal to recovery.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/base/warnings.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

struct FoldedBatchNorm {
  NodeId convolution = kNoNode;
  std::string convolution_module;  // "layer1.0.conv1"
  std::string module;              // of the batch norm, "layer1.0.bn1": names its tensors
  int64_t channels = 0;
  bool convolution_has_bias = false;  // one of its own: the file's is the folded one
};

struct AffineBatchNorm {
  NodeId scale = kNoNode;  // Mul
  NodeId shift = kNoNode;  // Add; kNoNode where it was zero, as in a new model, and left out
  ValueId input = kNoValue;
  std::string module;  // "model/conv1_bn": names its tensors
  int64_t channels = 0;
};

// What a run has of them, as settings.batch_norm says, and what was assumed.
struct BatchNorms {
  std::vector<FoldedBatchNorm> folded;  // put back
  std::vector<AffineBatchNorm> affine;  // run as batch norms
  std::vector<std::string> assumptions;
  std::vector<Doubt> doubts;  // what was guessed and no flag said
  Warnings warnings;
};

// O(nodes + signature).
BatchNorms FindBatchNorms(const BoundGraph& bound, const TrainingSettings& settings);

// --- How they are found ---------------------------------------------------------------------

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
// (MarkedBatchNorm).  Without any of them, in a file without any norm, the shapes of blocks that
// are built with batch norms.
// Whether the convolution had a bias is in the signature or in the bias's name; where neither
// says so, `assumed.conv_bias`.
// With BatchNormUse::kRestore, behind every other convolution too that has a bias and no batch
// norm behind it; that bias is then taken for the folded one.
// O(nodes + signature).
FoldedBatchNorms FindFoldedBatchNorms(const BoundGraph& bound, const TrainingSettings& settings);

// Mul, and Add behind it, with numbers for each channel, that go by a name of a batch norm
// (MarkedBatchNorm); without one, both of them behind a convolution, where the numbers have no name
// of PyTorch's: a module has a batch norm there, or one that is frozen
// (torchvision.ops.FrozenBatchNorm2d), which is what the file says.
// O(nodes).
std::vector<AffineBatchNorm> FindAffineBatchNorms(const BoundGraph& bound);

// Shapes of blocks that people build with batch norms, in files where these are folded and no name
// says so (normed_blocks.cc).
struct NormedBlocks {
  // Convolutions with a bias behind which a batch norm belongs, if the biases are folded ones:
  // no heads (whose results are reshaped or returned), no gates of squeeze-and-excitation (whose
  // maps are of one pixel).
  std::vector<NodeId> convolutions;
  // What shows that they are; empty where nothing does, and they may be that or plain biases.
  std::string shape;
};

// Nothing in a file with any norm of its own (they would all have been folded), with fewer than
// four such convolutions, or, where no shape shows more, with four that an activation follows at
// once in a Sequential.  Names of biases ("conv1.bias") say nothing: fuse_conv_bn_eval
// (torch/nn/utils/fusion.py, 2.11) gives a convolution without a bias one of that name.
// O(nodes).
NormedBlocks FindNormedBlocks(const BoundGraph& bound);

}  // namespace onnxfit
