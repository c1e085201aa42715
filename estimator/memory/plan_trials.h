// Allocations that nobody needs (Buffer::is_trial): libraries take them to try how fast they are.
#pragma once

#include <cstdint>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

bool HasTrials(const Trace& trace);

// Lets each ask for what is left of `room_bytes` then, where it wants more and nothing cached holds
// it: at most, as of less it is not known how much less.  O(events × log).
void LimitTrials(int64_t room_bytes, const AllocatorConf& conf, Trace& trace);

// The same run, in which they ask for nothing.
Trace WithoutTrials(Trace trace);

}  // namespace onnxfit
