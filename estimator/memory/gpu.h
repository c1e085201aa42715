// The card itself, as far as a replay needs one: a source of segments whose blocks can be
// written, and whose memory can be read off.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "estimator/memory/segment_source.h"

namespace onnxfit {

// What the card says about its memory at an instant.
struct MemoryReading {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;                     // for anyone
  std::optional<int64_t> process_bytes = {};  // of this process, where the driver tells (NVML)

  bool operator==(const MemoryReading&) const = default;
};

class Gpu : public SegmentSource {
 public:
  // Fills a part of a segment with `stamp`, byte by byte, so that its pages really exist.
  // Does not wait.  REQUIRES: the part is taken.
  virtual void Write(int32_t segment, int64_t offset, int64_t bytes, uint8_t stamp) = 0;

  // Counts those bytes of a part that no longer hold `stamp`.  Does not wait.
  virtual void Check(int32_t segment, int64_t offset, int64_t bytes, uint8_t stamp) = 0;

  // How many bytes all checks found wrong until now.  Waits for all that was asked.
  virtual int64_t WrongBytes() = 0;

  // What is free at this moment, for anyone: the quick part of a reading.
  virtual int64_t free_bytes() = 0;

  virtual MemoryReading Read() = 0;
};

// Counts, as a card would of which `free_bytes` are free: what a replay is compared with.
std::unique_ptr<Gpu> NewCountingGpu(int64_t free_bytes, int64_t total_bytes);

}  // namespace onnxfit
