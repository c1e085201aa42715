// What a program asks cuDNN to convolve.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/tensor_type.h"
#include "estimator/operators/strides.h"
#include "estimator/program/program.h"

namespace onnxfit {

// The memory format that a convolution of cuDNN's has x, the weight and the result in.  Source:
// cudnn_conv_suggest_memory_format of aten/src/ATen/native/ConvUtils.h, pytorch v2.11.0.
MemoryFormat CudnnFormat(const StridedType& x, const StridedType& weight);

// Whether cuDNN runs a convolution with these `ints`, but not one channel by channel that PyTorch
// has kernels of its own for.
bool AsksCudnn(const StridedType& x, const StridedType& weight, const TensorType& result,
               const std::vector<int64_t>& ints);

// Whether `call` is one that cuDNN runs.
// REQUIRES, as below: `program` as Dispatch leaves it.
bool AsksCudnn(const Program& program, const AtenCall& call);

// That call of it.  nullopt where the file does not say all: its padding is uneven.
std::optional<Convolution> ConvolutionOf(const Program& program, const AtenCall& call,
                                         ConvolutionPass pass);

// The passes of which each call of the program needs cuDNN, by its index; in training those of the
// gradients that are wanted.  O(calls).
std::vector<std::vector<ConvolutionPass>> PassesOf(const Program& program);

// All of them that can be told, each once, in the order of their first use in forward.
std::vector<Convolution> ConvolutionsOf(const Program& program);

}  // namespace onnxfit
