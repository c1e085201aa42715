// The calls of CUDA's driver that mapped pages take.  libcuda is opened by the runtime, so that
// the program starts without it.  Internal to benchmarks/cuda/.
#pragma once

#include <cuda.h>

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

// Throws Error where the driver lacks one of them.
DriverCalls LoadDriverCalls();

}  // namespace onnxfit
