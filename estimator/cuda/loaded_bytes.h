// Bytes of the current device, by readings of cudaMemGetInfo, and what handles and first kernels of
// libraries take of them.  Internal to the room cuda/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/cuda/shared_library.h"

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

// What follows measures handles and first kernels.  All throw Error where CUDA or the library
// fails; what a card cannot do is left out.

// "context": a second one of this process, since what was there before the first cannot be read.
void MeasureContext(MemoryMeter& meter);

// "cublasLt handle".
void MeasureCublasLt(const SharedLibrary& cublas_lt, MemoryMeter& meter);

// "cublas handle", "kernels of fp32 products", "… fp16 …", "… bf16 …".  The workspace is ours, as
// it is PyTorch's.
void MeasureCublas(const SharedLibrary& cublas, MemoryMeter& meter);

}  // namespace onnxfit
