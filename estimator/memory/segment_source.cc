#include "estimator/memory/segment_source.h"

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

class CountingSource : public SegmentSource {
 public:
  CountingSource(int64_t capacity_bytes, int64_t held_bytes)
      : free_bytes_(capacity_bytes), total_bytes_(CheckedAdd(capacity_bytes, held_bytes)) {}

  bool Take(int32_t /*segment*/, int64_t /*offset*/, int64_t bytes) override {
    if (bytes > free_bytes_) return false;
    free_bytes_ -= bytes;
    return true;
  }

  void GiveBack(int32_t /*segment*/, int64_t /*offset*/, int64_t bytes) override {
    free_bytes_ += bytes;
  }

  int64_t total_bytes() const override { return total_bytes_; }

 private:
  int64_t free_bytes_;
  const int64_t total_bytes_;
};

}  // namespace

std::unique_ptr<SegmentSource> NewCountingSource(int64_t capacity_bytes, int64_t held_bytes) {
  return std::make_unique<CountingSource>(capacity_bytes, held_bytes);
}

}  // namespace onnxfit
