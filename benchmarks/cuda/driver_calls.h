// The calls of CUDA's driver that mapped pages and second contexts take.  libcuda is opened by the
// runtime, so that the program starts without it.  Internal to benchmarks/cuda/.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace onnxfit {

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
