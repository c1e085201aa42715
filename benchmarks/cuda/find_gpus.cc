#include "benchmarks/cuda/find_gpus.h"

#include <fmt/format.h>

#include "benchmarks/cuda/cuda_call.h"

namespace onnxfit {
namespace {

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  MustSucceed(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

void ReadMemory(DetectedGpu& gpu) {
  MustSucceed(cudaSetDevice(gpu.index), "cudaSetDevice");
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  MustSucceed(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  gpu.free_bytes = static_cast<int64_t>(free_bytes);
  gpu.total_bytes = static_cast<int64_t>(total_bytes);
}

DetectedGpu Describe(int device) {
  cudaDeviceProp properties = {};
  MustSucceed(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  DetectedGpu gpu = {.index = device, .name = properties.name};
  gpu.compute_capability = properties.major * 10 + properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  gpu.shares_memory = Attribute(cudaDevAttrIntegrated, device) != 0;
  MustSucceed(cudaDriverGetVersion(&gpu.cuda_driver), "cudaDriverGetVersion");
  MustSucceed(cudaRuntimeGetVersion(&gpu.cuda_runtime), "cudaRuntimeGetVersion");
  ReadMemory(gpu);
  return gpu;
}

}  // namespace

GpuSearch FindGpus() {
  GpuSearch search;
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count)) {
    cudaGetLastError();
    search.why_none = fmt::format("no usable GPU: {}", CudaText(status));
    return search;
  }
  for (int device = 0; device < count; ++device) search.gpus.push_back(Describe(device));
  if (search.gpus.empty()) search.why_none = "no usable GPU: CUDA shows none";
  return search;
}

}  // namespace onnxfit
