// cuDNN at work.  Internal to the room cuda/, but without cuDNN in this header: a build that
// lacks cuDNN's headers has an answer, too (no_cudnn.cc).
#pragma once

#include <memory>
#include <vector>

#include "estimator/cuda/libraries.h"
#include "estimator/cuda/loaded_bytes.h"
#include "estimator/cuda/shared_library.h"

namespace onnxfit {

class CudnnLibrary {
 public:
  virtual ~CudnnLibrary() = default;

  // "cudnn handle", "kernels of fp32 convolutions", "… fp16 …", "… bf16 …"; as loaded_bytes.h.
  virtual void Measure(MemoryMeter& meter) = 0;

  // As Libraries'; of the current device where `card` is null.
  virtual PlannedWorkspaces Workspaces(const std::vector<Convolution>& convolutions,
                                       const DescribedCard* card) = 0;
};

// Null where this onnxfit was built without cuDNN's headers.  Throws Error where the library is
// none of cuDNN 9.  `has_driver`: whether a libcuda.so.1 is open.  REQUIRES: the cublasLt that it
// was built with is open, for without it cuDNN ends the process.
std::unique_ptr<CudnnLibrary> NewCudnnLibrary(const SharedLibrary& cudnn, bool has_driver);

}  // namespace onnxfit
