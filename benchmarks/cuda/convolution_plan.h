// The plan that PyTorch takes for a convolution.  Internal to benchmarks/cuda/.
#pragma once

#include <optional>

#include "benchmarks/cuda/cudnn_device.h"
#include "estimator/base/calibration.h"

namespace onnxfit {

// A plan and what it refers to, in that order.  Its device must live as long.
struct ConvolutionPlan {
  CudnnDescriptor x;
  CudnnDescriptor w;
  CudnnDescriptor y;
  CudnnDescriptor window;
  CudnnDescriptor operation;
  CudnnDescriptor graph;
  CudnnDescriptor engine;
  std::optional<CudnnDescriptor> plan;  // nullopt: of a described card, kernels to be compiled
};

// Nullopt where cuDNN has none for this card; throws Error where it refuses the convolution itself.
std::optional<ConvolutionPlan> PlanConvolution(const CudnnDevice& device,
                                               const Convolution& convolution);

int64_t WorkspaceBytes(const ConvolutionPlan& plan);

// Runs a plan of the current device on its default stream; does not wait.  REQUIRES: it has
// one; pointers to its memory, 32-byte aligned.
void Run(const ConvolutionPlan& plan, const CudnnDevice& device, void* x, void* w, void* y,
         void* workspace);

// A convolution as cuDNN sees it: a transposed one is the other's gradient by its data, a
// one-dimensional one has a height of 1 (PyTorch's view1d_as_2d).
Convolution AsCudnnSees(Convolution convolution);

}  // namespace onnxfit
