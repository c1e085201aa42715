// The CUDA driver: memory, copies, and what a pointer is.
#include <cstring>

#include "estimator/absent/contents.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/current.h"
#include "estimator/absent/host_memory.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"
#include "estimator/absent/virtual_memory.h"

namespace onnxfit::absent {
namespace {

using DevicePointer = uint64_t;

void* At(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

Status Copy(void* to, const void* from, size_t bytes) {
  CopyBytes(to, from, bytes);
  return kSuccess;
}

template <class Unit>
Status Fill(DevicePointer to, Unit unit, size_t count) {
  FillBytes(At(to), &unit, sizeof unit, count * sizeof unit);
  return kSuccess;
}

}  // namespace

ABSENT_API Status cuMemAlloc_v2(void** pointer, size_t bytes) {
  if (bytes == 0) return kInvalidValue;
  return Allocate(CurrentDevice(), bytes, pointer);
}
ABSENT_API Status cuMemAllocManaged(void** pointer, size_t bytes, unsigned) {
  *pointer = AllocateManaged(bytes);
  return *pointer == nullptr ? kOutOfMemory : kSuccess;
}
ABSENT_API Status cuMemFree_v2(DevicePointer pointer) {
  return pointer == 0 || FreeManaged(At(pointer)) || Free(At(pointer)) ? kSuccess : kInvalidValue;
}

ABSENT_API Status cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (!EnsureContext(CurrentDevice())) return kOutOfMemory;
  *free = static_cast<size_t>(FreeBytes(CurrentCard().place));
  *total = static_cast<size_t>(CurrentCard().total_bytes);
  return kSuccess;
}

ABSENT_API Status cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  *pointer = AllocatePinned(bytes);
  return *pointer == nullptr ? kOutOfMemory : kSuccess;
}
ABSENT_API Status cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return cuMemHostAlloc(pointer, bytes, 0);
}
ABSENT_API Status cuMemFreeHost(void* pointer) {
  return FreePinned(pointer) ? kSuccess : kInvalidValue;
}
ABSENT_API Status cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned) {
  return RegisterPinned(pointer, bytes) ? kSuccess : kAlreadyRegistered;
}
ABSENT_API Status cuMemHostRegister(void* pointer, size_t bytes, unsigned) {
  return cuMemHostRegister_v2(pointer, bytes, 0);
}
ABSENT_API Status cuMemHostUnregister(void* pointer) {
  return UnregisterPinned(pointer) ? kSuccess : kNotRegistered;
}
ABSENT_API Status cuMemHostGetDevicePointer_v2(void** device, void* host, unsigned) {
  *device = host;
  return kSuccess;
}

ABSENT_API Status cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t n) {
  return Copy(At(to), from, n);
}
ABSENT_API Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t n, void*) {
  return Copy(At(to), from, n);
}
ABSENT_API Status cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t n) {
  return Copy(to, At(from), n);
}
ABSENT_API Status cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t n, void*) {
  return Copy(to, At(from), n);
}
ABSENT_API Status cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t n) {
  return Copy(At(to), At(from), n);
}
ABSENT_API Status cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t n, void*) {
  return Copy(At(to), At(from), n);
}
ABSENT_API Status cuMemcpy(DevicePointer to, DevicePointer from, size_t n) {
  return Copy(At(to), At(from), n);
}
ABSENT_API Status cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t n, void*) {
  return Copy(At(to), At(from), n);
}

ABSENT_API Status cuMemsetD8_v2(DevicePointer to, unsigned char value, size_t n) {
  return Fill(to, value, n);
}
ABSENT_API Status cuMemsetD8Async(DevicePointer to, unsigned char value, size_t n, void*) {
  return Fill(to, value, n);
}
ABSENT_API Status cuMemsetD16_v2(DevicePointer to, unsigned short value, size_t n) {
  return Fill(to, value, n);
}
ABSENT_API Status cuMemsetD16Async(DevicePointer to, unsigned short value, size_t n, void*) {
  return Fill(to, value, n);
}
ABSENT_API Status cuMemsetD32_v2(DevicePointer to, unsigned value, size_t n) {
  return Fill(to, value, n);
}
ABSENT_API Status cuMemsetD32Async(DevicePointer to, unsigned value, size_t n, void*) {
  return Fill(to, value, n);
}

// --- What a pointer is ------------------------------------------------------------------

namespace {
// CUpointer_attribute (cuda.h, CUDA 13.0).
enum PointerAttribute {
  kContext = 1,
  kMemoryType = 2,
  kDevicePointer = 3,
  kHostPointer = 4,
  kBufferId = 7,
  kOrdinal = 9
};
constexpr unsigned kTypeHost = 1;
constexpr unsigned kTypeDevice = 2;
}  // namespace

ABSENT_API Status cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  const bool is_device = IsDevice(At(pointer));
  const bool is_host = !is_device && (IsManaged(At(pointer)) || IsPinned(At(pointer)));
  if (!is_device && !is_host) return kInvalidValue;
  const int device = DeviceOf(At(pointer)).value_or(CurrentDevice());
  const uint64_t one = 1;
  const unsigned type = is_device ? kTypeDevice : kTypeHost;
  void* const context = PrimaryContext(device);
  switch (attribute) {
    case kContext:
      std::memcpy(value, &context, sizeof context);
      break;
    case kMemoryType:
      std::memcpy(value, &type, sizeof type);
      break;
    case kDevicePointer:
    case kHostPointer:
      std::memcpy(value, &pointer, sizeof pointer);
      break;
    case kBufferId:
      std::memcpy(value, &one, sizeof one);
      break;
    case kOrdinal:
      std::memcpy(value, &device, sizeof device);
      break;
    default:
      std::memset(value, 0, sizeof(int));
  }
  return kSuccess;
}

}  // namespace onnxfit::absent
