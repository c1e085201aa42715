// The CUDA runtime: cards, and what they are.
#include <cstdio>
#include <cstring>

#include "estimator/absent/counts.h"
#include "estimator/absent/current.h"
#include "estimator/absent/properties.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// From this runtime on cudaSetDevice makes the card's context (cuda_runtime_api.h of 12.0).
constexpr int kFirstThatMakesContexts = 12000;

}  // namespace

ABSENT_API Status cudaRuntimeGetVersion(int* version);

ABSENT_API Status cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(Machine().cards.size());
  return Said(*count > 0 ? kSuccess : kNoDevice);
}

ABSENT_API Status cudaGetDevice(int* device) {
  *device = CurrentDevice();
  return kSuccess;
}

ABSENT_API Status cudaSetDevice(int device) {
  if (!HasCard(device)) return Said(kInvalidDevice);
  ChooseDevice(device);
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version < kFirstThatMakesContexts ? kSuccess : Said(EnterContext());
}

ABSENT_API Status cudaInitDevice(int device, unsigned, unsigned) {
  if (!HasCard(device)) return Said(kInvalidDevice);
  return Said(EnsureContext(device) ? kSuccess : kOutOfMemory);
}

ABSENT_API Status cudaDeviceReset() {
  ResetPrimary(CurrentDevice());
  return kSuccess;
}

ABSENT_API Status cudaDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}

// The runtime's own answer, where there is one.
ABSENT_API Status cudaRuntimeGetVersion(int* version) {
  static auto* const real =
      reinterpret_cast<Status (*)(int*)>(RealFunction("cudaRuntimeGetVersion"));
  *version = kDriverVersion;
  return real == nullptr ? kSuccess : real(version);
}

ABSENT_API Status cudaDeviceGetAttribute(int* value, int attribute, int device) {
  if (!HasCard(device)) return Said(kInvalidDevice);
  *value = AttributeOf(Machine().cards[static_cast<size_t>(device)], attribute);
  return kSuccess;
}

// The structure of CUDA 13, or that of 11, for which the symbol stood in 12, too: 12's own has a
// symbol of its own.
ABSENT_API Status cudaGetDeviceProperties(void* properties, int device) {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  if (!HasCard(device)) return Said(kInvalidDevice);
  WriteProperties(properties, Machine().cards[static_cast<size_t>(device)],
                  version < 13000 ? 11000 : version);
  return kSuccess;
}

ABSENT_API Status cudaGetDeviceProperties_v2(void* properties, int device) {
  if (!HasCard(device)) return Said(kInvalidDevice);
  WriteProperties(properties, Machine().cards[static_cast<size_t>(device)], 12000);
  return kSuccess;
}

ABSENT_API Status cuDeviceGetPCIBusId(char* text, int size, int device);
ABSENT_API Status cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return Said(cuDeviceGetPCIBusId(text, size, device));
}

ABSENT_API Status cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned bus = 0;
  if (std::sscanf(text, "%*x:%x", &bus) != 1) return Said(kInvalidValue);
  for (size_t i = 0; i < Machine().cards.size(); ++i) {
    if (Machine().cards[i].place + 1 == static_cast<int>(bus)) *device = static_cast<int>(i);
  }
  return kSuccess;
}

ABSENT_API Status cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return kSuccess;
}

ABSENT_API Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return Said(EnterContext());
}

ABSENT_API Status cudaDeviceSynchronize() { return Said(EnterContext()); }

ABSENT_API Status cudaGetLastError() {
  const Status status = LastStatus();
  LastStatus() = kSuccess;
  return status;
}

ABSENT_API Status cudaPeekAtLastError() { return LastStatus(); }

namespace {

// What is said without a runtime beside us.
const char* OwnText(Status status) {
  switch (status) {
    case kSuccess:
      return "no error";
    case kInvalidValue:
      return "invalid argument";
    case kOutOfMemory:
      return "out of memory";
    case kNoDevice:
      return "no CUDA-capable device is detected";
    case kInvalidDevice:
      return "invalid device ordinal";
    case kNotSupported:
      return "operation not supported";
    default:
      return "unknown error";
  }
}

using TextOf = const char* (*)(Status);

}  // namespace

ABSENT_API const char* cudaGetErrorString(Status status) {
  static const auto real = reinterpret_cast<TextOf>(RealFunction("cudaGetErrorString"));
  return real == nullptr ? OwnText(status) : real(status);
}

ABSENT_API const char* cudaGetErrorName(Status status) {
  static const auto real = reinterpret_cast<TextOf>(RealFunction("cudaGetErrorName"));
  return real == nullptr ? OwnText(status) : real(status);
}

}  // namespace onnxfit::absent
