#include "benchmarks/cuda/cuda_call.h"

#include <fmt/format.h>

#include <array>

#include "estimator/base/error.h"

namespace onnxfit {

void MustSucceed(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error({.where = "CUDA", .text = fmt::format("{}: {}", call, CudaText(status))});
}

const char* CudaText(cudaError_t status) { return cudaGetErrorString(status); }

CardMemory ReadCardMemory() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  MustSucceed(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return {.free_bytes = static_cast<int64_t>(free_bytes),
          .total_bytes = static_cast<int64_t>(total_bytes)};
}

std::string PciBusId(int device) {
  std::array<char, 32> id = {};
  if (cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device) == cudaSuccess) {
    return id.data();
  }
  cudaGetLastError();
  return "";
}

}  // namespace onnxfit
