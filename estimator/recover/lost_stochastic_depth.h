// Stochastic depth that an export for inference has left out without a trace.  Internal
// to the room recover/.
#pragma once

#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

struct LostStochasticDepth {
  NodeId sum = kNoNode;       // the residual sum
  ValueId branch = kNoValue;  // its operand that was multiplied with noise
};

// What is known of libraries: in torchvision's MBConv (EfficientNet), CNBlock and Swin's blocks
// the block's result goes through StochasticDepth before the sum, but in the model's first block,
// whose rate is 0.  The class is in files of
// torch.export; in TorchScript's the structure shows it: a module that adds its input to
// the result of its child "block", a Sequential with SiLU (MobileNetV3's has HardSwish, and
// no stochastic depth).  Nothing in files exported in training mode.  O(nodes).
std::vector<LostStochasticDepth> FindLostStochasticDepths(const BoundGraph& bound,
                                                          const std::vector<Rewritten>& rewrites);

}  // namespace onnxfit
