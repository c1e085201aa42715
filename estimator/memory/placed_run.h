// A trace, replayed with addresses: where each block lies, as a snapshot of PyTorch's allocator
// tells it.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/lives.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

struct PlacedEvent {
  enum class Action : uint8_t {
    kSegment,  // PyTorch asks the card: bytes of a new segment
    kMap,      // the same of an expandable one: bytes that it grows by
    kAlloc,    // bytes of a block
    kFree,
  };
  Action action = Action::kAlloc;
  int64_t address = 0;
  int64_t bytes = 0;     // of a block as it is handed out, of a segment as the card gives it
  BufferId buffer = -1;  // -1 of a segment
  StreamId stream = kMainStream;
  Moment moment = {};
};

struct PlacedSegment {
  int64_t address = 0;
  int64_t bytes = 0;
  bool is_small = false;  // of the pool of small blocks
  bool is_expandable = false;
  StreamId stream = kMainStream;
};

struct PlacedRun {
  std::vector<PlacedEvent> events;  // in order; what has no bytes has none
  // In order of their addresses, with those that torch.cuda.empty_cache() gave back.
  std::vector<PlacedSegment> segments;
};

// On a card that is never full and gives each segment addresses behind those before, with room to
// grow.  O(events × log).
PlacedRun ReplayPlaced(const Trace& trace, const AllocatorConf& conf = {});

}  // namespace onnxfit
