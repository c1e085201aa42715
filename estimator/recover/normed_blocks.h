// Shapes of blocks that people build with batch norms, in files where these are folded and no
// name says so.  Internal to the room recover/.
#pragma once

#include <string>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/bound_graph.h"

namespace onnxfit {

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
