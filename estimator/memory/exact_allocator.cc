#include <cassert>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {
namespace {

class ExactAllocator : public Allocator {
 public:
  bool AllocOn(StreamId /*stream*/, BufferId buffer, int64_t bytes) override {
    const auto index = static_cast<size_t>(buffer);
    if (index >= bytes_.size()) bytes_.resize(index + 1, kNotLive);
    assert(bytes_[index] == kNotLive);
    bytes_[index] = bytes;
    live_bytes_ = CheckedAdd(live_bytes_, bytes);
    return true;
  }

  void Free(BufferId buffer) override {
    int64_t& bytes = bytes_[Index(buffer)];
    assert(bytes != kNotLive);
    live_bytes_ -= bytes;
    bytes = kNotLive;
  }

  AllocatorStats stats() const override { return {live_bytes_, live_bytes_, live_bytes_, 0}; }

 private:
  static constexpr int64_t kNotLive = -1;
  std::vector<int64_t> bytes_;  // by BufferId
  int64_t live_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Allocator> NewExactAllocator() { return std::make_unique<ExactAllocator>(); }

}  // namespace onnxfit
