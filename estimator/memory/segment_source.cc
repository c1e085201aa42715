#include "estimator/memory/segment_source.h"

namespace onnxfit {
namespace {

class CountingSource : public SegmentSource {
 public:
  explicit CountingSource(int64_t capacity_bytes) : free_bytes_(capacity_bytes) {}

  bool Take(int32_t /*segment*/, int64_t bytes) override {
    if (bytes > free_bytes_) return false;
    free_bytes_ -= bytes;
    return true;
  }

  void GiveBack(int32_t /*segment*/, int64_t bytes) override { free_bytes_ += bytes; }

 private:
  int64_t free_bytes_;
};

}  // namespace

std::unique_ptr<SegmentSource> NewCountingSource(int64_t capacity_bytes) {
  return std::make_unique<CountingSource>(capacity_bytes);
}

}  // namespace onnxfit
