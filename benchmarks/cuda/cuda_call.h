// What calls of the CUDA runtime share.  Internal to benchmarks/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace onnxfit {

// Throws Error where `status` is none of success: what was tried and what CUDA says.  Clears the
// error, so that later calls are not blamed for it, but for those that CUDA keeps (illegal
// addresses).
void MustSucceed(cudaError_t status, const char* call);

// "no CUDA-capable device is detected"
const char* CudaText(cudaError_t status);

// What the current device says of its memory.  Throws Error where it has no context to give.
struct CardMemory {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};
CardMemory ReadCardMemory();

// Where a device is plugged in, as NVML names it: "0000:65:00.0"; "" where CUDA does not say.
std::string PciBusId(int device);

}  // namespace onnxfit
