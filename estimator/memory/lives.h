// When each buffer of a trace lives, and in which block: what is asked of a few buffers,
// where a timeline has sums of all.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// The instant of an event.
struct Moment {
  int32_t step = 0;  // from 1, 0 for setup
  Phase phase = Phase::kSetup;
  int32_t at = -1;        // label of the operator that runs, -1 between operators
  int64_t operators = 0;  // that have begun since the run did: a clock

  bool operator==(const Moment&) const = default;
};

inline constexpr int64_t kNever = -1;

struct Life {
  int64_t born = 0;              // index into Trace::events
  int64_t dies = kNever;         // the same
  int64_t block_bytes = 0;       // what the caching allocator hands out for it
  Kind kind = Kind::kTemporary;  // what held it last
};

// What one step asks of the allocator.
struct StepEvents {
  int64_t allocations = 0;
  int64_t frees = 0;
  BufferId largest = -1;  // of its allocations, the first of equals; -1 without any
  int64_t peak_allocated_bytes = 0;
  Moment peak;  // the allocation that reaches it, the first of equals
};

struct Lives {
  std::vector<Life> of_buffer;
  std::vector<Moment> of_event;
  std::vector<StepEvents> steps;  // steps[0] is step 1
  int64_t peak = 0;               // the event that reaches the largest, the first of equals
  int64_t peak_allocated_bytes = 0;
};

// One replay on an endless card, as Replay's (timeline.h).  O(events × log).
Lives ReadLives(const Trace& trace, const AllocatorConf& conf = {});

}  // namespace onnxfit
