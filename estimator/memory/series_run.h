// A run whose steps differ: each plays the step of one of several loops, through one allocator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/loop.h"

namespace onnxfit {

// A loop at one size.  Both must outlive what plays it.
struct SeriesLoop {
  const Loop* loop = nullptr;
  std::span<const int64_t> bytes;  // by BufferId
};

struct SeriesRun {
  bool fits = false;
  int64_t retries = 0;     // how often cached segments had to be given back first
  int32_t retried_at = 0;  // the first step that needed it, from 1; 0: none did
  // Behind each step that was played, and while it ran.
  struct Step {
    int64_t reserved_bytes = 0;
    int64_t peak_allocated_bytes = 0;
  };
  std::vector<Step> steps = {};
  int64_t peak_reserved_bytes = 0;
  int64_t peak_allocated_bytes = 0;
  // Where it failed, if it does not fit.
  int32_t failed_step = 0;  // from 1, 0 for setup
  int32_t failed_loop = 0;
  size_t failed_event = 0;  // index into Trace::events of that loop's
  int64_t asked_bytes = 0;
};

// Whether a step of one can follow a step of any other: all trace as many steps, and behind each of
// them as much is left (parameters, states, what the loop's variables still name).
bool CanFollow(std::span<const SeriesLoop> loops);

// Step i is one of loops[order[i]]; setup is that of the first.  What a step leaves to the next one
// is matched by the order in which it was allocated.  Ends where an allocation fails.
// REQUIRES: `order` has a step; CanFollow(loops); each loop repeats, or traces them all.
// O(calls × log + what is live) a step.
SeriesRun PlaySeries(std::span<const SeriesLoop> loops, std::span<const int32_t> order,
                     const CardRoom& room, const AllocatorConf& conf = {});

}  // namespace onnxfit
