// Calls of the CUDA runtime and of its driver, and what goes wrong with them.  Internal to
// estimator/cuda/ and benchmarks/cuda/.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
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

// The calls of CUDA's driver that mapped pages and second contexts take.  libcuda is opened by the
// runtime, so that the program starts without it.
struct DriverCalls {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_addresses = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuGetErrorString) error_string = nullptr;
};

struct ContextCalls {
  PFN_cuCtxCreate_v3020 create = nullptr;
  PFN_cuCtxPopCurrent_v4000 pop = nullptr;
  PFN_cuCtxDestroy_v4000 destroy = nullptr;
};

// Throw Error where the driver lacks one of them.
DriverCalls LoadDriverCalls();
ContextCalls LoadContextCalls();

}  // namespace onnxfit
