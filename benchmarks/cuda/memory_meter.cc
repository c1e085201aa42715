#include "benchmarks/cuda/memory_meter.h"

#include "benchmarks/cuda/cuda_call.h"

namespace onnxfit {

void MemoryMeter::Restart() { free_bytes_ = ReadCardMemory().free_bytes; }

void MemoryMeter::Read(const std::string& what) {
  MustSucceed(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const int64_t free_bytes = ReadCardMemory().free_bytes;
  if (loaded_.empty() || loaded_.back().what != what) loaded_.push_back({.what = what});
  loaded_.back().bytes += free_bytes_ - free_bytes;
  free_bytes_ = free_bytes;
}

DeviceBuffer::DeviceBuffer(int64_t bytes) {
  if (bytes > 0) MustSucceed(cudaMalloc(&begin_, static_cast<size_t>(bytes)), "cudaMalloc");
}

DeviceBuffer::~DeviceBuffer() { cudaFree(begin_); }

}  // namespace onnxfit
