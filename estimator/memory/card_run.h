// Does a trace run on a card of a given size?
#pragma once

#include <cstdint>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

struct CardRun {
  bool fits = false;
  int64_t retries = 0;  // how often cached segments had to be given back first
  int64_t peak_reserved_bytes = 0;
  // Where it failed, if it does not fit.
  int32_t failed_step = 0;
  Phase failed_phase = Phase::kSetup;
  int32_t failed_at = -1;  // label of the operator that asked
  int64_t asked_bytes = 0;
};

// Plays `trace` through PyTorch's caching allocator with `capacity_bytes` for segments,
// until the first allocation that fails even after cached segments were given back.
// `held_bytes` is what others hold of the card, the context above all: a memory fraction
// is one of both together.  O(events × log).
CardRun RunOnCard(const Trace& trace, int64_t capacity_bytes, const AllocatorConf& conf = {},
                  int64_t held_bytes = 0);

}  // namespace onnxfit
