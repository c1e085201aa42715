// What the attributes of a Conv or ConvTranspose say.  Internal to the room recover/.
#pragma once

#include <optional>

#include "estimator/base/tensor_type.h"
#include "estimator/onnx/graph.h"
#include "estimator/program/convolution_arguments.h"

namespace onnxfit {

struct ConvolutionDims {
  const Dims& input;
  const Dims& weight;
  const Dims& output;
};

// Those of a Conv or ConvTranspose.  nullopt where it pads one side more than the other: PyTorch
// pads in a call of its own then, which no file shows.
std::optional<ConvolutionArguments> ReadArguments(const Node& node, const ConvolutionDims& dims);

}  // namespace onnxfit
