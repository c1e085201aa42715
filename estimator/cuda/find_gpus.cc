#include "estimator/cuda/find_gpus.h"

#include <fmt/format.h>

#include <utility>

#include "estimator/cuda/cuda_calls.h"
#include "estimator/cuda/nvml.h"

namespace onnxfit {
namespace {

std::string WhyNone(cudaError_t status) {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  // The runtime says the same of no driver and of an old one.
  if (status != cudaErrorInsufficientDriver) return CudaText(status);
  if (driver == 0) return "no NVIDIA driver is installed here (no libcuda.so.1)";
  return fmt::format("expected a driver for CUDA {} or later, found one for CUDA {}",
                     CudaVersionText(runtime), CudaVersionText(driver));
}

// Starts nothing on the card.
cudaError_t ReadProperties(DetectedGpu& gpu) {
  cudaDeviceProp properties = {};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, gpu.index)) return status;
  gpu.name = properties.name;
  gpu.compute_capability = properties.major * 10 + properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  gpu.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  gpu.shares_memory = properties.integrated != 0;
  if (const cudaError_t status = cudaDriverGetVersion(&gpu.cuda_driver)) return status;
  return cudaRuntimeGetVersion(&gpu.cuda_runtime);
}

// The first call that needs a context.
cudaError_t ReadMemory(DetectedGpu& gpu) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (const cudaError_t status = cudaSetDevice(gpu.index)) return status;
  if (const cudaError_t status = cudaMemGetInfo(&free_bytes, &total_bytes)) return status;
  gpu.free_bytes = static_cast<int64_t>(free_bytes);
  gpu.total_bytes = static_cast<int64_t>(total_bytes);
  return cudaSuccess;
}

// A slice of a card (MIG) has less than the card; a whole one shows at least 0.969 of what
// nvidia-smi does (cards.cc).
bool IsWhole(const DetectedGpu& gpu, int64_t smi_bytes) {
  return gpu.total_bytes > smi_bytes / 10 * 9;
}

void ReadNvml(DetectedGpu& gpu, const Nvml& nvml) {
  const std::string bus_id = PciBusId(gpu.index);
  gpu.driver = nvml.DriverVersion();
  gpu.smi_bytes = nvml.TotalBytes(bus_id);
  if (gpu.smi_bytes && !IsWhole(gpu, *gpu.smi_bytes)) gpu.smi_bytes.reset();
  NvmlProcesses processes = nvml.Processes(bus_id);
  gpu.process_bytes = processes.own_bytes;
  // Without a context it is in no list.
  const bool is_ours = processes.has_this_process || !gpu.why_unusable.empty();
  if (is_ours) gpu.others = std::move(processes.others);
}

DetectedGpu Describe(int device, const Nvml& nvml) {
  DetectedGpu gpu;
  gpu.index = device;
  cudaError_t status = ReadProperties(gpu);
  if (status == cudaSuccess) status = ReadMemory(gpu);
  if (status != cudaSuccess) {
    gpu.why_unusable = fmt::format("CUDA gives this process no context: {}", CudaText(status));
    cudaGetLastError();
  }
  ReadNvml(gpu, nvml);
  return gpu;
}

}  // namespace

GpuSearch FindGpus(std::optional<int> only) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count)) {
    return {.why_none = fmt::format("no usable GPU: {}", WhyNone(status))};
  }
  GpuSearch search;
  const Nvml nvml;
  for (int device = 0; device < count; ++device) {
    if (device == only.value_or(device)) search.gpus.push_back(Describe(device, nvml));
  }
  if (search.gpus.empty()) {
    search.why_none =
        count == 0
            ? "no usable GPU: CUDA shows none"
            : fmt::format("no usable GPU: expected an index below {}, found {}", count, *only);
  }
  return search;
}

}  // namespace onnxfit
