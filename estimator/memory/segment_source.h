// Where segments come from: a counter when predicting, the card itself when measuring.
#pragma once

#include <cstdint>
#include <memory>

namespace onnxfit {

class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // Takes `bytes` for segment `segment`.  Returns false when the card is full.
  // REQUIRES: bytes > 0; `segment` is not taken.
  [[nodiscard]] virtual bool Take(int32_t segment, int64_t bytes) = 0;

  // Gives segment `segment` back.  REQUIRES: it is taken, with as many bytes.
  virtual void GiveBack(int32_t segment, int64_t bytes) = 0;
};

// Counts up to `capacity_bytes`.
std::unique_ptr<SegmentSource> NewCountingSource(int64_t capacity_bytes);

}  // namespace onnxfit
