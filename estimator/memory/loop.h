// A training loop as an allocator sees it, whatever its sizes: what is asked for and given
// back, in order.  Its last step repeats, so that a few traced steps stand for any number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

struct Loop {
  struct Call {
    BufferId buffer = 0;
    bool frees = false;
    StreamId stream = kMainStream;
    int32_t event = 0;      // index into Trace::events
    bool may_fail = false;  // Buffer::may_fail

    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;
  std::vector<size_t> steps;  // where each begins in `calls`; steps[0] is setup
  // Before which calls torch.cuda.empty_cache() runs: their indices, in order.
  std::vector<int64_t> cache_emptied_at = {};

  // Where the last step repeats: for each buffer that is born in it, its twin of the step
  // before, and the other way round; for all others, themselves.  With its buffers' names
  // exchanged so, it is the next step.  Empty where it does not repeat.
  std::vector<BufferId> twins;

  bool repeats() const { return !twins.empty(); }
  int traced_steps() const { return static_cast<int>(steps.size()) - 1; }
  std::span<const Call> CallsOf(size_t step) const;  // of setup (0) or a traced step
  // REQUIRES: `call` is one of `calls`.
  bool EmptiesCacheBefore(const Call& call) const {
    return std::ranges::binary_search(cache_emptied_at, &call - calls.data());
  }

  // A step of any number: that of the trace which it repeats, and which buffer a call of that
  // one is about then.  REQUIRES: step <= traced_steps(), or repeats().
  int TracedStepOf(int step) const { return std::min(step, traced_steps()); }
  BufferId BufferIn(int step, const Call& call) const {
    const bool exchanged = (step - TracedStepOf(step)) % 2 == 1;
    return exchanged ? twins[Index(call.buffer)] : call.buffer;
  }
};

// Without trials (Buffer::is_trial), which can make no run fail; behind them the cache is emptied,
// so that all is as if they had not been. The last step repeats if the one before asks for the same
// sizes in the same order, gives the same ones of its own back, and it gives all back that the one
// before it left. O(events × log).
Loop ReadLoop(const Trace& trace);

// The most that is held at once in `loop`, in blocks of 512 bytes, without what may fail: no
// caching allocator can do with less.  Throws Error where it needs more than 63 bits.  O(calls).
int64_t PeakBlockBytes(const Loop& loop, std::span<const int64_t> bytes);

// What each buffer asks for, by BufferId.
std::vector<int64_t> BytesOf(const Trace& trace);

}  // namespace onnxfit
