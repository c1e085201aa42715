// A convolution that is in every table of layers.
#pragma once

#include <cstdint>

#include "estimator/base/calibration.h"

namespace onnxfit {

// As ResNets have it: 64 channels of 56 x 56, a window of 3 x 3.
inline Convolution ResnetLayer(ConvolutionPass pass, int64_t batch) {
  return {.pass = pass,
          .dtype = DType::kFloat32,
          .input = {batch, 64, 56, 56},
          .weight = {64, 64, 3, 3},
          .output = {batch, 64, 56, 56},
          .stride = {1, 1},
          .padding = {1, 1},
          .dilation = {1, 1}};
}

}  // namespace onnxfit
