#include "estimator/cuda/cuda_calls.h"

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
