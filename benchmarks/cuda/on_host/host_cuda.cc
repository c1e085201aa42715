#include "benchmarks/cuda/on_host/host_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

namespace onnxfit {
namespace {

constexpr int64_t kGranularity = int64_t{2} << 20;  // of cudaMalloc and of pages

HostDevice& DeviceAt(int device) { return TheHostCuda().devices.at(static_cast<size_t>(device)); }

HostDevice& CurrentDevice() { return DeviceAt(TheHostCuda().current); }

void CopyText(const std::string& text, char* to, size_t length) {
  std::strncpy(to, text.c_str(), length - 1);
  to[length - 1] = '\0';
}

int64_t RoundedUp(size_t bytes) {
  return (static_cast<int64_t>(bytes) + kGranularity - 1) / kGranularity * kGranularity;
}

int64_t FreeBytes() {
  const HostCuda& cuda = TheHostCuda();
  const HostDevice& card = CurrentDevice();
  return card.total_bytes - card.others_bytes - cuda.context_bytes - cuda.held_bytes;
}

std::map<void*, int64_t>& Blocks() {
  static std::map<void*, int64_t> blocks;
  return blocks;
}

// --- Mapped pages: one range of host addresses for each reservation -------------------------

struct Pages {
  std::map<CUdeviceptr, char*> ranges;
  std::map<CUmemGenericAllocationHandle, int64_t> handles;
  CUmemGenericAllocationHandle next = 1;
};

Pages& ThePages() {
  static Pages pages;
  return pages;
}

CUresult Granularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

// Addresses are lazily backed: calloc of so much maps zero pages.
CUresult Reserve(CUdeviceptr* begin, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  char* range = static_cast<char*>(std::calloc(bytes, 1));
  if (range == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *begin = reinterpret_cast<CUdeviceptr>(range);
  ThePages().ranges[*begin] = range;
  return CUDA_SUCCESS;
}

CUresult FreeAddresses(CUdeviceptr begin, size_t) {
  std::free(ThePages().ranges[begin]);
  ThePages().ranges.erase(begin);
  return CUDA_SUCCESS;
}

CUresult Create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                unsigned long long) {
  HostCuda& cuda = TheHostCuda();
  const bool fails = cuda.mallocs++ == cuda.fails_at;
  if (fails || static_cast<int64_t>(bytes) > FreeBytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  cuda.held_bytes += static_cast<int64_t>(bytes);
  *handle = ThePages().next++;
  ThePages().handles[*handle] = static_cast<int64_t>(bytes);
  return CUDA_SUCCESS;
}

CUresult Release(CUmemGenericAllocationHandle handle) {
  TheHostCuda().held_bytes -= ThePages().handles[handle];
  ThePages().handles.erase(handle);
  return CUDA_SUCCESS;
}

CUresult Map(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) {
  return CUDA_SUCCESS;
}

CUresult Unmap(CUdeviceptr, size_t) { return CUDA_SUCCESS; }

CUresult SetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }

CUresult ErrorString(CUresult, const char** text) {
  *text = "an error of the card on the host";
  return CUDA_SUCCESS;
}

// --- A second context: only what it takes --------------------------------------------------

CUresult CreateContext(CUcontext* context, unsigned, CUdevice) {
  *context = reinterpret_cast<CUcontext>(&TheHostCuda());  // any that is none of null
  TheHostCuda().held_bytes += TheHostCuda().context_bytes;
  return CUDA_SUCCESS;
}

CUresult PopContext(CUcontext*) { return CUDA_SUCCESS; }

CUresult DestroyContext(CUcontext) {
  TheHostCuda().held_bytes -= TheHostCuda().context_bytes;
  return CUDA_SUCCESS;
}

struct EntryPoint {
  const char* name;
  void* function;
};

void* FindEntryPoint(const char* name) {
  const EntryPoint kAll[] = {
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&Granularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&Reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&FreeAddresses)},
      {"cuMemCreate", reinterpret_cast<void*>(&Create)},
      {"cuMemRelease", reinterpret_cast<void*>(&Release)},
      {"cuMemMap", reinterpret_cast<void*>(&Map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&Unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&SetAccess)},
      {"cuGetErrorString", reinterpret_cast<void*>(&ErrorString)},
      {"cuCtxCreate", reinterpret_cast<void*>(&CreateContext)},
      {"cuCtxPopCurrent", reinterpret_cast<void*>(&PopContext)},
      {"cuCtxDestroy", reinterpret_cast<void*>(&DestroyContext)},
  };
  for (const EntryPoint& row : kAll) {
    if (std::strcmp(row.name, name) == 0) return row.function;
  }
  return nullptr;
}

// --- Kernels: the one that there is (stamps.cu), by its arguments ---------------------------

void CountOnHost(void** arguments) {
  const auto* bytes = *static_cast<const unsigned char**>(arguments[0]);
  const int64_t count = *static_cast<int64_t*>(arguments[1]) * 16;
  const auto stamp = static_cast<unsigned char>(*static_cast<unsigned int*>(arguments[2]));
  auto* wrong = *static_cast<unsigned long long**>(arguments[3]);
  *wrong += static_cast<unsigned long long>(count - std::count(bytes, bytes + count, stamp));
}

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared;
  void* stream;
};

LaunchShape& PushedShape() {
  static LaunchShape shape;
  return shape;
}

}  // namespace

HostCuda& TheHostCuda() {
  static HostCuda cuda;
  return cuda;
}

}  // namespace onnxfit

using onnxfit::DeviceAt;
using onnxfit::TheHostCuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(TheHostCuda().devices.size());
  const cudaError_t status = *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  return static_cast<cudaError_t>(TheHostCuda().count_status.value_or(status));
}

cudaError_t cudaSetDevice(int device) {
  onnxfit::HostCuda& cuda = TheHostCuda();
  if (device >= static_cast<int>(cuda.devices.size())) return cudaErrorInvalidDevice;
  const auto status = static_cast<cudaError_t>(DeviceAt(device).context_status);
  if (status != cudaSuccess) return status;
  cuda.current = device;
  cuda.contexts.insert(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = TheHostCuda().current;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const onnxfit::HostDevice& card = DeviceAt(device);
  *properties = {};
  onnxfit::CopyText(card.name, properties->name, sizeof(properties->name));
  properties->major = 8;
  properties->minor = 6;
  properties->multiProcessorCount = 28;
  properties->maxThreadsPerMultiProcessor = 1536;
  properties->totalGlobalMem = static_cast<size_t>(card.total_bytes);
  return static_cast<cudaError_t>(card.properties_status);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  onnxfit::CopyText(DeviceAt(device).bus_id, text, static_cast<size_t>(length));
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheHostCuda().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = static_cast<size_t>(std::max<int64_t>(0, onnxfit::FreeBytes()));
  *total_bytes = static_cast<size_t>(onnxfit::CurrentDevice().total_bytes);
  return cudaSuccess;
}

// Small blocks share a page of the driver's, as on a card: they cost nothing here.
cudaError_t cudaMalloc(void** block, size_t bytes) {
  onnxfit::HostCuda& cuda = TheHostCuda();
  const bool is_small = bytes < 4096;
  const int64_t rounded = is_small ? 0 : onnxfit::RoundedUp(bytes);
  const bool fails = !is_small && cuda.mallocs++ == cuda.fails_at;
  *block = fails || rounded > onnxfit::FreeBytes() ? nullptr : std::malloc(bytes);
  if (*block == nullptr) return cudaErrorMemoryAllocation;
  onnxfit::Blocks()[*block] = rounded;
  cuda.held_bytes += rounded;
  return cudaSuccess;
}

cudaError_t cudaFree(void* block) {
  const auto at = onnxfit::Blocks().find(block);
  if (at == onnxfit::Blocks().end()) return cudaErrorInvalidValue;
  TheHostCuda().held_bytes -= at->second;
  onnxfit::Blocks().erase(at);
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* block, int value, size_t bytes) {
  std::memset(block, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* block, int value, size_t bytes, cudaStream_t) {
  onnxfit::HostCuda& cuda = TheHostCuda();
  std::memset(block, value, bytes);
  if (cuda.writes == cuda.scribbles_at) std::memset(block, value + 1, 5);
  if (cuda.writes == cuda.interrupts_at) std::raise(SIGINT);
  ++cuda.writes;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return "an error of the card on the host";
  }
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = onnxfit::FindEntryPoint(name);
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// What nvcc's host code calls around a launch, in CUDA 12 (…LaunchKernel) and 13 (__cuda…).
// NOLINTBEGIN(bugprone-reserved-identifier): the names are nvcc's
void** __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
char __cudaInitModule(void**) { return 1; }  // of code without optimization
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  onnxfit::PushedShape() = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const onnxfit::LaunchShape& shape = onnxfit::PushedShape();
  *grid = shape.grid;
  *block = shape.block;
  *shared = shape.shared;
  *static_cast<void**>(stream) = shape.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void*) {
  *kernel = nullptr;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void** arguments, size_t, cudaStream_t) {
  ++TheHostCuda().kernels;
  onnxfit::CountOnHost(arguments);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(nullptr, grid, block, arguments, shared, stream);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"
