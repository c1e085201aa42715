// Does a loop run on a card of a given size?
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// What of a card an allocator can have, and what others hold of it, the context above all: a
// memory fraction is one of both together.
struct CardRoom {
  int64_t capacity_bytes = 0;
  int64_t held_bytes = 0;
};

struct CardRun {
  bool fits = false;
  int64_t retries = 0;  // how often cached segments had to be given back first
  int64_t peak_reserved_bytes = 0;
  // Where it failed, if it does not fit.
  int32_t failed_step = 0;
  size_t failed_event = 0;  // index into Trace::events; that of the last traced step in later ones
  int64_t asked_bytes = 0;
  int64_t reserved_bytes = 0;  // then, all that could be given back
};

// Plays `steps` steps of `loop`, whose buffers ask for `bytes`, through PyTorch's caching
// allocator, until the first allocation that fails even after cached segments were given back.
// REQUIRES: steps <= loop.traced_steps(), or loop.repeats().  O(calls × log) a step, until a step
// leaves the card as the one before did, or the one before that.
CardRun RunOnCard(const Loop& loop, std::span<const int64_t> bytes, int steps, const CardRoom& room,
                  const AllocatorConf& conf = {});

// What such plays reserve in all on cards that are never full, for runs of which many ask for the
// same small blocks: batches of one model.  There no pool takes a segment of the other, so each is
// played for itself, and what small blocks did last is not played again.  May be asked from several
// threads.
class EndlessPlays {
 public:
  // Of `conf`, no block goes back to the card before it is full, and no share of one is a limit.
  explicit EndlessPlays(const AllocatorConf& conf) : conf_(conf) {}

  // REQUIRES: as RunOnCard's.
  int64_t ReservedBytes(const Loop& loop, std::span<const int64_t> bytes, int steps);

 private:
  // A play of small blocks alone, and what it was of.
  struct SmallPlay {
    std::vector<Loop::Call> calls;
    std::vector<int64_t> cache_emptied_at;
    std::vector<int64_t> bytes;  // by BufferId; 0 of those that are not small
    int steps = 0;
    int64_t reserved_bytes = 0;
  };

  int64_t SmallBytes(const Loop& loop, std::vector<int64_t> bytes, int steps);

  const AllocatorConf conf_;
  std::mutex mutex_;  // of last_
  std::shared_ptr<const SmallPlay> last_;
};

// Which operator asked, and in which phase.
struct TracePlace {
  Phase phase = Phase::kSetup;
  int32_t at = -1;  // label of the operator, -1 between operators
};
TracePlace PlaceOf(const Trace& trace, size_t event);

}  // namespace onnxfit
