#include "benchmarks/cuda/driver_calls.h"

#include <fmt/format.h>

#include "benchmarks/cuda/cuda_call.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr unsigned kVirtualMemoryVersion = 11000;  // CUDA 11.0 has all of them

template <typename Function>
void Load(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  MustSucceed(cudaGetDriverEntryPointByVersion(name, &found, kVirtualMemoryVersion,
                                               cudaEnableDefault, &result),
              name);
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    throw Error(
        {.where = "CUDA",
         .text = fmt::format("the driver has no {}: expected one of CUDA 11 or later", name),
         .hint = "leave out expandable_segments"});
  }
  function = reinterpret_cast<Function>(found);
}

}  // namespace

DriverCalls LoadDriverCalls() {
  DriverCalls calls;
  Load("cuMemGetAllocationGranularity", calls.granularity);
  Load("cuMemAddressReserve", calls.reserve);
  Load("cuMemAddressFree", calls.free_addresses);
  Load("cuMemCreate", calls.create);
  Load("cuMemRelease", calls.release);
  Load("cuMemMap", calls.map);
  Load("cuMemUnmap", calls.unmap);
  Load("cuMemSetAccess", calls.set_access);
  Load("cuGetErrorString", calls.error_string);
  return calls;
}

ContextCalls LoadContextCalls() {
  ContextCalls calls;
  Load("cuCtxCreate", calls.create);
  Load("cuCtxPopCurrent", calls.pop);
  Load("cuCtxDestroy", calls.destroy);
  return calls;
}

}  // namespace onnxfit
