// Where segments come from: a counter when predicting, the card itself when measuring.
#pragma once

#include <cstdint>
#include <memory>

namespace onnxfit {

class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // Takes `bytes` at `offset` of segment `segment`.  Returns false when the card is full.
  // REQUIRES: bytes > 0; none of them is taken.
  [[nodiscard]] virtual bool Take(int32_t segment, int64_t offset, int64_t bytes) = 0;

  // Gives them back.  REQUIRES: all of them are taken.
  virtual void GiveBack(int32_t segment, int64_t offset, int64_t bytes) = 0;

  // What the card has in all, whoever holds it (cudaMemGetInfo's total).
  virtual int64_t total_bytes() const = 0;
};

// Counts up to `capacity_bytes`, on a card of which others hold `held_bytes` more.
std::unique_ptr<SegmentSource> NewCountingSource(int64_t capacity_bytes, int64_t held_bytes = 0);

}  // namespace onnxfit
