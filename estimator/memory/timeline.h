// A trace, replayed: how much is held at every event, and what holds it at the peak.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/memory/allocator.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// Largest values seen during one step, in bytes.
struct Peak {
  int64_t exact_bytes = 0;  // torch's requested_bytes
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;

  void Raise(const AllocatorStats& stats);
  void Raise(const Peak& other);

  bool operator==(const Peak&) const = default;
};

struct StepFigures {
  AllocatorStats after_forward;
  AllocatorStats after_backward;
  AllocatorStats after_step;
  Peak peak;
};

// A buffer that is alive at the peak.
struct LiveBuffer {
  BufferId buffer = 0;
  Kind kind = Kind::kTemporary;
  int32_t born = -1;  // label of the operator that allocated it, -1 between operators
  int32_t dies = -1;  // label of the operator at which it is freed, -1 between them or never
  Phase born_in = Phase::kSetup;
  std::optional<Phase> dies_in = {};  // nullopt if it never is freed
  bool dies_later = false;            // in a later step than the peak's
};

struct Timeline {
  std::vector<StepFigures> steps;  // steps[0] is step 1
  Peak peak;                       // the largest of all steps, and of setup

  // The instant of the largest allocated_bytes, the first one of equals.
  int64_t allocated_at_peak = 0;
  int64_t exact_at_peak = 0;
  int32_t peak_step = 0;
  Phase peak_phase = Phase::kSetup;
  int32_t peak_at = -1;                            // label of the operator then running
  std::vector<LiveBuffer> live_at_peak;            // in order of birth
  std::array<int64_t, kKinds> bytes_by_kind = {};  // adds up to exact_at_peak
};

// Replays `trace` through the caching allocator on an endless card, where limits and
// garbage collection have no effect.
// Throws Error where a sum needs more than 63 bits.  O(events × log).
Timeline Replay(const Trace& trace, const AllocatorConf& conf = {});

}  // namespace onnxfit
