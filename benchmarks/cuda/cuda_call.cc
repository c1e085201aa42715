#include "benchmarks/cuda/cuda_call.h"

#include <fmt/format.h>

#include "estimator/base/error.h"

namespace onnxfit {

void MustSucceed(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error({.where = "CUDA", .text = fmt::format("{}: {}", call, CudaText(status))});
}

const char* CudaText(cudaError_t status) { return cudaGetErrorString(status); }

}  // namespace onnxfit
