// The CUDA runtime: memory of the card and of the host, and copies between them.
#include <sys/mman.h>

#include <cstdlib>

#include "estimator/absent/contents.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/current.h"
#include "estimator/absent/host_memory.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"
#include "estimator/absent/virtual_memory.h"

namespace onnxfit::absent {

ABSENT_API Status cudaMalloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  const Status status = EnterContext();
  if (status != kSuccess || bytes == 0) return Said(status);
  return Said(Allocate(CurrentDevice(), bytes, pointer));
}

ABSENT_API Status cudaFree(void* pointer) {
  const Status status = EnterContext();
  if (status != kSuccess || pointer == nullptr) return Said(status);
  return Said(FreeManaged(pointer) || Free(pointer) ? kSuccess : kInvalidValue);
}

ABSENT_API Status cudaMallocManaged(void** pointer, size_t bytes, unsigned) {
  *pointer = nullptr;
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  *pointer = AllocateManaged(bytes);
  return Said(*pointer == nullptr ? kOutOfMemory : kSuccess);
}

ABSENT_API Status cudaMemGetInfo(size_t* free, size_t* total) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  *free = static_cast<size_t>(FreeBytes(CurrentCard().place));
  *total = static_cast<size_t>(CurrentCard().total_bytes);
  return kSuccess;
}

ABSENT_API Status cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = nullptr;
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  *pointer = AllocatePinned(bytes);
  return Said(*pointer == nullptr ? kOutOfMemory : kSuccess);
}
ABSENT_API Status cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}
ABSENT_API Status cudaFreeHost(void* pointer) {
  return Said(pointer == nullptr || FreePinned(pointer) ? kSuccess : kInvalidValue);
}
ABSENT_API Status cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  return Said(RegisterPinned(pointer, bytes) ? kSuccess : kAlreadyRegistered);
}
ABSENT_API Status cudaHostUnregister(void* pointer) {
  return Said(UnregisterPinned(pointer) ? kSuccess : kNotRegistered);
}
ABSENT_API Status cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return kSuccess;
}

namespace {

// cudaPointerAttributes of CUDA 11 and later (driver_types.h).
struct PointerAttributes {
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
};
enum PointerType { kUnregistered = 0, kHost = 1, kDevice = 2, kManaged = 3 };

int TypeOf(const void* pointer) {
  return IsDevice(pointer)    ? kDevice
         : IsManaged(pointer) ? kManaged
         : IsPinned(pointer)  ? kHost
                              : kUnregistered;
}

}  // namespace

ABSENT_API Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  const int type = TypeOf(pointer);
  auto* const address = const_cast<void*>(pointer);
  const bool is_on_host = type == kHost || type == kManaged;
  *attributes = {type, DeviceOf(pointer).value_or(CurrentDevice()),
                 type == kUnregistered ? nullptr : address, is_on_host ? address : nullptr};
  return kSuccess;
}

namespace {
Status Copy(void* to, const void* from, size_t bytes) {
  const Status status = EnterContext();
  if (status == kSuccess) CopyBytes(to, from, bytes);
  return Said(status);
}
}  // namespace

ABSENT_API Status cudaMemcpy(void* to, const void* from, size_t bytes, int) {
  return Copy(to, from, bytes);
}
ABSENT_API Status cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) {
  return Copy(to, from, bytes);
}
ABSENT_API Status cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return Copy(to, from, bytes);
}
ABSENT_API Status cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, void*) {
  return Copy(to, from, bytes);
}

ABSENT_API Status cudaMemcpy2DAsync(char* to, size_t to_pitch, const char* from, size_t from_pitch,
                                    size_t width, size_t height, int, void*) {
  for (size_t row = 0; row < height; ++row) {
    CopyBytes(to + row * to_pitch, from + row * from_pitch, width);
  }
  return kSuccess;
}
ABSENT_API Status cudaMemcpy2D(char* to, size_t to_pitch, const char* from, size_t from_pitch,
                               size_t width, size_t height, int kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}

ABSENT_API Status cudaMemset(void* to, int value, size_t bytes) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  const char byte = static_cast<char>(value);
  FillBytes(to, &byte, 1, bytes);
  return kSuccess;
}
ABSENT_API Status cudaMemsetAsync(void* to, int value, size_t bytes, void*) {
  return cudaMemset(to, value, bytes);
}

namespace {
// cudaIpcMemHandle_t, by value: what of it we use.
struct IpcHandle {
  int64_t bytes;
  char rest[56];
};
}  // namespace

// Another process's memory: counted there, and here addresses of which nothing is known.
ABSENT_API Status cudaIpcGetMemHandle(IpcHandle* handle, const void* pointer) {
  const auto block = BlockOf(pointer);
  if (!block) return Said(kInvalidValue);
  *handle = {block->bytes, {}};
  return kSuccess;
}
ABSENT_API Status cudaIpcOpenMemHandle(void** pointer, IpcHandle handle, unsigned) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  *pointer = reinterpret_cast<void*>(ReserveAddresses(static_cast<uint64_t>(handle.bytes)));
  return Said(*pointer == nullptr ? kOutOfMemory : kSuccess);
}

// A variable of the program on the card.
ABSENT_API Status cudaGetSymbolAddress(void** pointer, const void*) {
  static void* variables = nullptr;
  if (variables == nullptr && cudaMalloc(&variables, 1 << 16) != kSuccess) return kOutOfMemory;
  *pointer = variables;
  return kSuccess;
}
ABSENT_API Status cudaGetSymbolSize(size_t* bytes, const void*) {
  *bytes = 8;
  return kSuccess;
}

}  // namespace onnxfit::absent
