#include "estimator/absent/cudnn_properties.h"

#include <cstdio>

namespace onnxfit::absent {

// Clocks did not matter in any plan that was seen; the rest is the same for all cards.
std::string CudnnPropertiesOf(const AbsentCard& card, size_t cuda_version) {
  const Limits& limits = LimitsOf(card);
  char text[1024];
  std::snprintf(
      text, sizeof text,
      R"({"deviceVer":%d,"multiProcessorCount":%d,"maxThreadsPerSM":%d,"smClockRateKHz":%d,)"
      R"("memClockRateKHz":%d,"maxSharedMemoryPerBlockOptin":%d,"maxCtasPerSM":%d,"driverVer":%zu,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("maxThreadsPerBlock":1024,"warpSize":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,)"
      R"("maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"
      R"("supportCoopLaunch":1,"isTccDriver":0,"pciDeviceId":0,"cudaDeviceId":0,"deviceName":"",)"
      R"("totalGlobalMem":0,"l2CacheSize":0})",
      card.capability * 10, card.multiprocessors, card.threads, AttributeOf(card, 13),
      AttributeOf(card, 36), limits.shared_bytes_opt_in, limits.blocks_per_multiprocessor,
      cuda_version);
  return text;
}

}  // namespace onnxfit::absent
