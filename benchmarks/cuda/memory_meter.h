// Bytes of the current device, by readings of cudaMemGetInfo.  Internal to benchmarks/cuda/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/calibration.h"

namespace onnxfit {

// What the device loses from one reading to the next.  All throw Error where CUDA fails.
class MemoryMeter {
 public:
  MemoryMeter() { Restart(); }

  // Takes a reading; what was lost or given back before is nobody's.
  void Restart();

  // Waits for the device and takes a reading: what was lost since the last one is `what`'s.
  void Read(const std::string& what);

  const std::vector<LoadedBytes>& loaded() const { return loaded_; }  // in the order of Read()

 private:
  int64_t free_bytes_ = 0;
  std::vector<LoadedBytes> loaded_;
};

// Memory of the current device.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* get() const { return begin_; }

 private:
  void* begin_ = nullptr;
};

}  // namespace onnxfit
