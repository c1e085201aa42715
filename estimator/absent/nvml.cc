// NVML, NVIDIA's management library: cards by handle, their memory and who holds it.  What is not
// here answers "not supported", which programs take as it is.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "estimator/absent/card.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// nvmlReturn_t (nvml.h of CUDA 13.0).
using NvmlStatus = int;
constexpr NvmlStatus kOk = 0;
constexpr NvmlStatus kInvalidArgument = 2;
constexpr NvmlStatus kNotThere = 6;
constexpr NvmlStatus kTooSmall = 7;

// A handle is a card of the machine, whatever the program may see of it.
using Handle = const AbsentCard*;

NvmlStatus TextTo(char* text, unsigned size, const char* written) {
  std::snprintf(text, size, "%s", written);
  return kOk;
}

NvmlStatus CardAt(size_t place, Handle* handle) {
  if (place >= Machine().all.size()) return kInvalidArgument;
  *handle = &Machine().all[place];
  return kOk;
}

int64_t UsedBytes(Handle card) { return card->total_bytes - FreeBytes(card->place); }

}  // namespace

ABSENT_API NvmlStatus nvmlInit_v2() { return kOk; }
ABSENT_API NvmlStatus nvmlInit() { return kOk; }
ABSENT_API NvmlStatus nvmlInitWithFlags(unsigned) { return kOk; }
ABSENT_API NvmlStatus nvmlShutdown() { return kOk; }
ABSENT_API const char* nvmlErrorString(NvmlStatus status) {
  return status == kOk ? "Success" : status == 3 ? "Not Supported" : "Unknown Error";
}

ABSENT_API NvmlStatus nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return TextTo(text, size, kDriverText);
}
ABSENT_API NvmlStatus nvmlSystemGetNVMLVersion(char* text, unsigned size) {
  return TextTo(text, size, kDriverText);
}
ABSENT_API NvmlStatus nvmlSystemGetCudaDriverVersion(int* version) {
  *version = kDriverVersion;
  return kOk;
}
ABSENT_API NvmlStatus nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

ABSENT_API NvmlStatus nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Machine().all.size());
  return kOk;
}
ABSENT_API NvmlStatus nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

ABSENT_API NvmlStatus nvmlDeviceGetHandleByIndex_v2(unsigned place, Handle* handle) {
  return CardAt(place, handle);
}
ABSENT_API NvmlStatus nvmlDeviceGetHandleByIndex(unsigned place, Handle* handle) {
  return CardAt(place, handle);
}
ABSENT_API NvmlStatus nvmlDeviceGetHandleByPciBusId_v2(const char* text, Handle* handle) {
  unsigned bus = 0;
  return std::sscanf(text, "%*x:%x", &bus) == 1 && bus > 0 ? CardAt(bus - 1, handle) : kNotThere;
}
ABSENT_API NvmlStatus nvmlDeviceGetHandleByPciBusId(const char* text, Handle* handle) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, handle);
}
ABSENT_API NvmlStatus nvmlDeviceGetHandleByUUID(const char* text, Handle* handle) {
  unsigned first = 0;
  return std::sscanf(text, "GPU-%2x", &first) == 1 && first > 0 ? CardAt(first - 1, handle)
                                                                : kNotThere;
}

ABSENT_API NvmlStatus nvmlDeviceGetIndex(Handle card, unsigned* place) {
  *place = static_cast<unsigned>(card->place);
  return kOk;
}
ABSENT_API NvmlStatus nvmlDeviceGetName(Handle card, char* text, unsigned size) {
  return TextTo(text, size, card->name.c_str());
}

// As cudaDeviceProp has it: the first byte counts, the others are zero.
ABSENT_API NvmlStatus nvmlDeviceGetUUID(Handle card, char* text, unsigned size) {
  char uuid[64];
  std::snprintf(uuid, sizeof uuid, "GPU-%02x000000-0000-0000-0000-000000000000", card->place + 1);
  return TextTo(text, size, uuid);
}

namespace {
struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
}  // namespace

ABSENT_API NvmlStatus nvmlDeviceGetMemoryInfo(Handle card, Memory* memory) {
  const auto total = static_cast<unsigned long long>(card->total_bytes);
  const auto used = static_cast<unsigned long long>(UsedBytes(card));
  *memory = {total, total - used, used};
  return kOk;
}
ABSENT_API NvmlStatus nvmlDeviceGetMemoryInfo_v2(Handle card, MemoryV2* memory) {
  Memory first = {};
  nvmlDeviceGetMemoryInfo(card, &first);
  *memory = {memory->version, first.total, 0, first.free, first.used};
  return kOk;
}

ABSENT_API NvmlStatus nvmlDeviceGetCudaComputeCapability(Handle card, int* major, int* minor) {
  *major = card->capability / 10;
  *minor = card->capability % 10;
  return kOk;
}

namespace {

// nvmlProcessInfo_v1_t, and _v2_t with what slices (MIG) have.
struct Process {
  unsigned pid;
  unsigned long long bytes;
};
struct ProcessV2 {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

Process Row(const SharedProcess& process, int place, Process*) {
  return {static_cast<unsigned>(process.pid),
          static_cast<unsigned long long>(process.bytes[place])};
}
ProcessV2 Row(const SharedProcess& process, int place, ProcessV2*) {
  const Process first = Row(process, place, static_cast<Process*>(nullptr));
  return {first.pid, first.bytes, ~0U, ~0U};
}

// `count` is how many there is room for, then how many there are.
template <class RowType>
NvmlStatus Processes(Handle card, unsigned* count, RowType* rows) {
  unsigned found = 0;
  for (const SharedProcess& process : Counts().processes) {
    if (process.bytes[card->place] == 0 || !IsRunning(process)) continue;
    if (found < *count && rows != nullptr) rows[found] = Row(process, card->place, rows);
    ++found;
  }
  const bool is_enough = found <= *count;
  *count = found;
  return is_enough ? kOk : kTooSmall;
}

}  // namespace

ABSENT_API NvmlStatus nvmlDeviceGetComputeRunningProcesses(Handle card, unsigned* count,
                                                           Process* rows) {
  return Processes(card, count, rows);
}
ABSENT_API NvmlStatus nvmlDeviceGetComputeRunningProcesses_v2(Handle card, unsigned* count,
                                                              ProcessV2* rows) {
  return Processes(card, count, rows);
}
ABSENT_API NvmlStatus nvmlDeviceGetComputeRunningProcesses_v3(Handle card, unsigned* count,
                                                              ProcessV2* rows) {
  return Processes(card, count, rows);
}

// Numbers that are read beside, and decide nothing.
ABSENT_API NvmlStatus nvmlDeviceGetUtilizationRates(Handle, unsigned* gpu_and_memory) {
  gpu_and_memory[0] = gpu_and_memory[1] = 0;
  return kOk;
}
ABSENT_API NvmlStatus nvmlDeviceGetTemperature(Handle, int, unsigned* degrees) {
  *degrees = 30;
  return kOk;
}
ABSENT_API NvmlStatus nvmlDeviceGetPowerUsage(Handle, unsigned* milliwatts) {
  *milliwatts = 50000;
  return kOk;
}

}  // namespace onnxfit::absent
