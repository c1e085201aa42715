#include "benchmarks/cuda/open_gpu.h"

#include "benchmarks/cuda/segments.h"
#include "benchmarks/cuda/stamps.h"
#include "estimator/cuda/cuda_calls.h"
#include "estimator/cuda/nvml.h"

namespace onnxfit {
namespace {

// Without what NVML tells, which takes longer.
MemoryReading ReadCuda() {
  const CardMemory memory = ReadCardMemory();
  return {.total_bytes = memory.total_bytes, .free_bytes = memory.free_bytes};
}

// One number on the device.
class DeviceCounter {
 public:
  DeviceCounter() {
    void* counter = nullptr;
    MustSucceed(cudaMalloc(&counter, sizeof(*counter_)), "cudaMalloc");
    counter_ = static_cast<unsigned long long*>(counter);
    if (const cudaError_t status = cudaMemset(counter_, 0, sizeof(*counter_))) {
      cudaFree(counter_);
      MustSucceed(status, "cudaMemset");
    }
  }
  ~DeviceCounter() { cudaFree(counter_); }
  DeviceCounter(const DeviceCounter&) = delete;
  DeviceCounter& operator=(const DeviceCounter&) = delete;

  unsigned long long* get() const { return counter_; }

  int64_t Read() const {
    unsigned long long value = 0;
    MustSucceed(cudaMemcpy(&value, counter_, sizeof(value), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return static_cast<int64_t>(value);
  }

 private:
  unsigned long long* counter_ = nullptr;
};

// All on CUDA's default stream, in order, as PyTorch does.
class CudaGpu : public Gpu {
 public:
  CudaGpu(int index, SegmentMemory memory)
      : bus_id_(PciBusId(index)),
        total_bytes_(ReadCuda().total_bytes),
        segments_(memory == SegmentMemory::kPages ? NewPagedSegments(index, total_bytes_)
                                                  : NewWholeSegments()) {
    LoadKernels();
  }

  // What is still queued writes to segments that are about to go.
  ~CudaGpu() override { cudaDeviceSynchronize(); }

  bool Take(int32_t segment, int64_t offset, int64_t bytes) override {
    return segments_->Take(segment, offset, bytes);
  }

  void GiveBack(int32_t segment, int64_t offset, int64_t bytes) override {
    Wait();  // cudaFree does by itself, unmapping does not
    segments_->GiveBack(segment, offset, bytes);
  }

  int64_t total_bytes() const override { return total_bytes_; }

  void Write(int32_t segment, int64_t offset, int64_t bytes, uint8_t stamp) override {
    MustSucceed(cudaMemsetAsync(segments_->Begin(segment) + offset, stamp,
                                static_cast<size_t>(bytes), nullptr),
                "cudaMemsetAsync");
  }

  void Check(int32_t segment, int64_t offset, int64_t bytes, uint8_t stamp) override {
    MustSucceed(
        CountWrongBytes(segments_->Begin(segment) + offset, bytes, stamp, wrong_.get(), nullptr),
        "checking a block");
  }

  int64_t WrongBytes() override {
    Wait();
    return wrong_.Read();
  }

  int64_t free_bytes() override { return ReadCuda().free_bytes; }

  MemoryReading Read() override {
    MemoryReading reading = ReadCuda();
    reading.process_bytes = nvml_.OwnBytes(bus_id_);
    return reading;
  }

 private:
  // Kernels are loaded by their first call (CUDA_MODULE_LOADING=LAZY).
  void LoadKernels() {
    constexpr size_t kMost = size_t{8} << 20;
    void* block = nullptr;
    MustSucceed(cudaMalloc(&block, kMost), "cudaMalloc");
    cudaError_t status = cudaSuccess;
    for (const size_t bytes : {size_t{512}, size_t{64} << 10, kMost}) {  // memset has several
      if (status == cudaSuccess) status = cudaMemsetAsync(block, 1, bytes, nullptr);
    }
    if (status == cudaSuccess) status = CountWrongBytes(block, kMost, 1, wrong_.get(), nullptr);
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    cudaFree(block);
    MustSucceed(status, "a first kernel");
  }

  static void Wait() { MustSucceed(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

  const Nvml nvml_;
  const std::string bus_id_;
  int64_t total_bytes_;
  DeviceCounter wrong_;
  std::unique_ptr<CudaSegments> segments_;
};

}  // namespace

std::unique_ptr<Gpu> OpenGpu(int index, SegmentMemory memory) {
  MustSucceed(cudaSetDevice(index), "cudaSetDevice");
  return std::make_unique<CudaGpu>(index, memory);
}

}  // namespace onnxfit
