// Calls of the CUDA runtime that must succeed.
#pragma once

#include <cuda_runtime_api.h>

namespace onnxfit {

// Throws Error where `status` is none of success: what was tried and what CUDA says.  Clears the
// error, so that later calls are not blamed for it.
void MustSucceed(cudaError_t status, const char* call);

// "no CUDA-capable device is detected"
const char* CudaText(cudaError_t status);

}  // namespace onnxfit
