// What a program asks cuDNN to convolve.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Whether cuDNN runs `call`: a convolution, but not one channel by channel that PyTorch has
// kernels of its own for.
// REQUIRES, as below: `program` as Dispatch leaves it.
bool AsksCudnn(const Program& program, const AtenCall& call);

// That call of it.  nullopt where the file does not say all: its padding is uneven, or its input
// lies in the order NHWC.
std::optional<Convolution> ConvolutionOf(const Program& program, const AtenCall& call,
                                         ConvolutionPass pass);

// The passes of which each call of the program needs cuDNN, by its index; in training those of the
// gradients that are wanted.  O(calls).
std::vector<std::vector<ConvolutionPass>> PassesOf(const Program& program);

// All of them that can be told, each once, in the order of their first use in forward.
std::vector<Convolution> ConvolutionsOf(const Program& program);

}  // namespace onnxfit
