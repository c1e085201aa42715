#include "estimator/memory/gpu.h"

namespace onnxfit {
namespace {

class CountingGpu : public Gpu {
 public:
  CountingGpu(int64_t free_bytes, int64_t total_bytes)
      : free_bytes_(free_bytes), total_bytes_(total_bytes) {}

  bool Take(int32_t /*segment*/, int64_t /*offset*/, int64_t bytes) override {
    if (bytes > free_bytes_) return false;
    free_bytes_ -= bytes;
    return true;
  }

  void GiveBack(int32_t /*segment*/, int64_t /*offset*/, int64_t bytes) override {
    free_bytes_ += bytes;
  }

  int64_t total_bytes() const override { return total_bytes_; }
  void Write(int32_t, int64_t, int64_t, uint8_t) override {}
  void Check(int32_t, int64_t, int64_t, uint8_t) override {}
  int64_t WrongBytes() override { return 0; }
  int64_t free_bytes() override { return free_bytes_; }
  MemoryReading Read() override { return {total_bytes_, free_bytes_, std::nullopt}; }

 private:
  int64_t free_bytes_;
  const int64_t total_bytes_;
};

}  // namespace

std::unique_ptr<Gpu> NewCountingGpu(int64_t free_bytes, int64_t total_bytes) {
  return std::make_unique<CountingGpu>(free_bytes, total_bytes);
}

}  // namespace onnxfit
