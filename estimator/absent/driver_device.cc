// The CUDA driver: cards, streams and events.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "estimator/absent/captures.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {

ABSENT_API Status cuInit(unsigned) { return Machine().cards.empty() ? kNoDevice : kSuccess; }

ABSENT_API Status cuDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return kSuccess;
}

ABSENT_API Status cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Machine().cards.size());
  return kSuccess;
}

ABSENT_API Status cuDeviceGet(int* device, int ordinal) {
  if (!HasCard(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

ABSENT_API Status cuDeviceGetName(char* text, int size, int device) {
  if (!HasCard(device)) return kInvalidDevice;
  std::snprintf(text, static_cast<size_t>(size), "%s",
                Machine().cards[static_cast<size_t>(device)].name.c_str());
  return kSuccess;
}

ABSENT_API Status cuDeviceTotalMem_v2(size_t* bytes, int device) {
  if (!HasCard(device)) return kInvalidDevice;
  *bytes = static_cast<size_t>(Machine().cards[static_cast<size_t>(device)].total_bytes);
  return kSuccess;
}

ABSENT_API Status cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!HasCard(device)) return kInvalidDevice;
  *value = AttributeOf(Machine().cards[static_cast<size_t>(device)], attribute);
  return kSuccess;
}

ABSENT_API Status cuDeviceComputeCapability(int* major, int* minor, int device) {
  if (!HasCard(device)) return kInvalidDevice;
  *major = Machine().cards[static_cast<size_t>(device)].capability / 10;
  *minor = Machine().cards[static_cast<size_t>(device)].capability % 10;
  return kSuccess;
}

ABSENT_API Status cuDeviceGetUuid(char* sixteen_bytes, int device) {
  if (!HasCard(device)) return kInvalidDevice;
  std::memset(sixteen_bytes, 0, 16);
  sixteen_bytes[0] = static_cast<char>(Machine().cards[static_cast<size_t>(device)].place + 1);
  return kSuccess;
}
ABSENT_API Status cuDeviceGetUuid_v2(char* sixteen_bytes, int device) {
  return cuDeviceGetUuid(sixteen_bytes, device);
}

ABSENT_API Status cuDeviceGetPCIBusId(char* text, int size, int device) {
  if (!HasCard(device)) return kInvalidDevice;
  std::snprintf(text, static_cast<size_t>(size), "00000000:%02X:00.0",
                Machine().cards[static_cast<size_t>(device)].place + 1);
  return kSuccess;
}

ABSENT_API Status cuStreamCreate(void** stream, unsigned) { return Fresh(stream); }
ABSENT_API Status cuStreamCreateWithPriority(void** stream, unsigned, int) { return Fresh(stream); }
ABSENT_API Status cuStreamBeginCapture_v2(void* stream, int) {
  BeginCapture(stream);
  return kSuccess;
}
ABSENT_API Status cuStreamBeginCaptureToGraph(void* stream, void* graph, const void*, const void*,
                                              size_t, int) {
  BeginCapture(stream, graph);
  return kSuccess;
}
ABSENT_API Status cuStreamEndCapture(void* stream, void** graph) {
  *graph = EndCapture(stream);
  return *graph == nullptr ? kIllegalState : kSuccess;
}
ABSENT_API Status cuStreamIsCapturing(void* stream, int* status) {
  TellCapture(stream, status, nullptr, nullptr);
  return kSuccess;
}
ABSENT_API Status cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* number,
                                            void** graph, void** dependencies, size_t* count) {
  TellCapture(stream, status, number, graph);
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return kSuccess;
}
ABSENT_API Status cuStreamGetCaptureInfo_v3(void* stream, int* status, unsigned long long* number,
                                            void** graph, void** dependencies, void** edges,
                                            size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(stream, status, number, graph, dependencies, count);
}
ABSENT_API Status cuStreamGetCaptureInfo(void* stream, int* status, unsigned long long* number) {
  TellCapture(stream, status, number, nullptr);
  return kSuccess;
}
ABSENT_API Status cuLaunchHostFunc(void*, void (*function)(void*), void* data) {
  function(data);
  return kSuccess;
}
ABSENT_API Status cuStreamAddCallback(void* stream, void (*function)(void*, Status, void*),
                                      void* data, unsigned) {
  function(stream, kSuccess, data);
  return kSuccess;
}

ABSENT_API Status cuEventCreate(void** event, unsigned) { return Fresh(event); }
ABSENT_API Status cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 1;
  return kSuccess;
}
ABSENT_API Status cuEventElapsedTime_v2(float* milliseconds, void*, void*) {
  *milliseconds = 1;
  return kSuccess;
}

ABSENT_API Status cuGraphCreate(void** graph, unsigned) { return Fresh(graph); }
ABSENT_API Status cudaGraphGetNodes(void* graph, void** nodes, size_t* count);
ABSENT_API Status cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  return cudaGraphGetNodes(graph, nodes, count);
}
ABSENT_API Status cuGraphInstantiateWithFlags(void** runnable, void*, unsigned long long) {
  return Fresh(runnable);
}

namespace {
Status Text(const char* text, const char** answer) {
  *answer = text;
  return kSuccess;
}
}  // namespace

ABSENT_API Status cuGetErrorString(Status status, const char** text) {
  return Text(status == kOutOfMemory ? "out of memory" : "an error of the card that is not there",
              text);
}
ABSENT_API Status cuGetErrorName(Status status, const char** text) {
  return Text(status == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN", text);
}

// NVIDIA's private tables, by which its own libraries know its driver.  A runtime that is linked
// into a program (cudart_static) begins with them, and then does not know the card.
ABSENT_API Status cuGetExportTable(const void** table, const void*) {
  Dl_info asker;
  const bool is_known = dladdr(__builtin_return_address(0), &asker) != 0;
  WriteOwnRuntime(is_known ? asker.dli_fname : "");
  *table = nullptr;
  return kNotSupported;
}

}  // namespace onnxfit::absent
