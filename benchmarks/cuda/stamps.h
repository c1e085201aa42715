// Kernels of a replay.  Internal to benchmarks/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace onnxfit {

// Adds to `*wrong` how many of `bytes` at `block` are not `stamp`.  Reads each once; does not
// wait.  REQUIRES: `block` and `bytes` are multiples of 16.
cudaError_t CountWrongBytes(const void* block, int64_t bytes, uint8_t stamp,
                            unsigned long long* wrong, cudaStream_t stream);

}  // namespace onnxfit
