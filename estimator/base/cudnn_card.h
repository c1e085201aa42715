// A card as cuDNN has it described instead of a handle, to plan for one that is not there: shared
// by those who ask for estimates (cuda/) and by the card under `onnxfit run` (absent/), which may
// need nothing but libc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace onnxfit {

// What CUDA says of a compute capability (times ten) and those up to the next row: CUDA C++
// Programming Guide 13.0, "Technical Specifications per Compute Capability".
struct CapabilityLimits {
  int capability = 0;
  int shared_bytes_per_multiprocessor = 0;
  int shared_bytes_opt_in = 0;  // of a block that asks for them
  int blocks_per_multiprocessor = 0;
};
inline constexpr CapabilityLimits kCapabilityLimits[] = {
    {50, 64 << 10, 48 << 10, 32},   {52, 96 << 10, 48 << 10, 32},   {53, 64 << 10, 48 << 10, 32},
    {60, 64 << 10, 48 << 10, 32},   {61, 96 << 10, 48 << 10, 32},   {62, 64 << 10, 48 << 10, 32},
    {70, 96 << 10, 96 << 10, 32},   {75, 64 << 10, 64 << 10, 16},   {80, 164 << 10, 163 << 10, 32},
    {86, 100 << 10, 99 << 10, 16},  {87, 164 << 10, 163 << 10, 16}, {89, 100 << 10, 99 << 10, 24},
    {90, 228 << 10, 227 << 10, 32}, {120, 100 << 10, 99 << 10, 24},
};

// Those of the newest that is no newer.
inline const CapabilityLimits& CapabilityLimitsOf(int capability) {
  const CapabilityLimits* best = &kCapabilityLimits[0];
  for (const CapabilityLimits& limits : kCapabilityLimits) {
    if (limits.capability <= capability) best = &limits;
  }
  return *best;
}

// The first cuDNN that can be asked for such a card: 9.8.0 brought device properties; with those
// of capability 10.0, 9.10.2 ends the process, and those between were not tried.
inline size_t FirstCudnnVersion(int capability) { return capability == 100 ? 91900 : 90800; }

// cuDNN's support matrix: builds for CUDA 13 begin with Turing.  Those for CUDA 12 began earlier,
// but were not asked about cards before Volta.
inline int LeastCapabilityOf(size_t cuda_version) { return cuda_version >= 13000 ? 75 : 70; }

struct CudnnCard {
  int capability = 0;  // times ten
  int64_t multiprocessors = 0;
  int64_t threads_per_multiprocessor = 0;
  // Heuristics take the clocks into account on Hopper alone; here an H100 SXM's.
  int64_t clock_khz = 1'980'000;         // cudaDevAttrClockRate
  int64_t memory_clock_khz = 2'619'000;  // cudaDevAttrMemoryClockRate
};

// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION (9.8 and later), which cuDNN writes and reads; it names
// what it misses (9.19.0).  What is the same for all cards, or was seen not to matter, is constant.
// `cuda_version` is that of the runtime that cuDNN was built with.
inline std::string CudnnPropertiesOf(const CudnnCard& card, size_t cuda_version) {
  const CapabilityLimits& limits = CapabilityLimitsOf(card.capability);
  char text[1024];
  std::snprintf(
      text, sizeof text,
      R"({"deviceVer":%d,"multiProcessorCount":%lld,"maxThreadsPerSM":%lld,"smClockRateKHz":%lld,)"
      R"("memClockRateKHz":%lld,"maxSharedMemoryPerBlockOptin":%d,"maxCtasPerSM":%d,"driverVer":%zu,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("maxThreadsPerBlock":1024,"warpSize":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"
      R"("supportCoopLaunch":1,"isTccDriver":0,"pciDeviceId":0,"cudaDeviceId":0,"deviceName":"",)"
      R"("totalGlobalMem":0,"l2CacheSize":0})",
      card.capability * 10, static_cast<long long>(card.multiprocessors),
      static_cast<long long>(card.threads_per_multiprocessor),
      static_cast<long long>(card.clock_khz), static_cast<long long>(card.memory_clock_khz),
      limits.shared_bytes_opt_in, limits.blocks_per_multiprocessor, cuda_version);
  return text;
}

}  // namespace onnxfit
