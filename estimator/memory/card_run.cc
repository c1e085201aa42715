#include "estimator/memory/card_run.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {
namespace {

class LoopPlayer {
 public:
  LoopPlayer(const Loop& loop, std::span<const int64_t> bytes, const CardRoom& room,
             const AllocatorConf& conf)
      : loop_(loop),
        bytes_(bytes),
        source_(NewCountingSource(room.capacity_bytes, room.held_bytes)),
        allocator_(NewCachingAllocator(*source_, conf)) {}

  CardRun Run(int steps) {
    for (int step = 0; step <= steps && run_.fits; ++step) {
      Play(step);
      retries_.push_back(run_.retries);
      if (!run_.fits || !HasTurnedRound(step)) continue;
      run_.retries += RetriesAfter(step, steps);
      break;
    }
    return run_;
  }

 private:
  void Play(int step) {
    for (const Loop::Call& call : loop_.CallsOf(Index(loop_.TracedStepOf(step)))) {
      const BufferId buffer = loop_.BufferIn(step, call);
      if (call.frees) {
        allocator_->Free(buffer);
      } else if (!Alloc(buffer)) {
        return Fail(step, call, bytes_[Index(buffer)]);
      }
    }
  }

  // Whether the card is as it was two steps before, where the same buffers were live: then all
  // that is left comes as it came since.  (Batches often take turns in two places.)
  bool HasTurnedRound(int step) {
    const int repeated = step - loop_.traced_steps();
    if (!loop_.repeats() || repeated < 0 || repeated % 2 == 1) return false;
    const std::optional<Layout> before = std::exchange(layout_, allocator_->layout());
    return before.has_value() && before == layout_;
  }

  // Of the steps that are left, where two take turns for good.
  int64_t RetriesAfter(int step, int steps) const {
    const auto of = [&](int s) { return retries_[Index(s)] - retries_[Index(s - 1)]; };
    const int64_t left = steps - step;
    return left / 2 * (of(step) + of(step - 1)) + left % 2 * of(step - 1);
  }

  bool Alloc(BufferId buffer) {
    const bool fits = allocator_->Alloc(buffer, bytes_[Index(buffer)]);
    const AllocatorStats stats = allocator_->stats();
    run_.retries = stats.retries;
    run_.peak_reserved_bytes = std::max(run_.peak_reserved_bytes, stats.reserved_bytes);
    return fits;
  }

  void Fail(int step, const Loop::Call& call, int64_t asked_bytes) {
    run_.fits = false;
    run_.failed_step = step;
    run_.failed_event = static_cast<size_t>(call.event);
    run_.asked_bytes = asked_bytes;
    run_.reserved_bytes = allocator_->stats().reserved_bytes;
  }

  const Loop& loop_;
  const std::span<const int64_t> bytes_;
  const std::unique_ptr<SegmentSource> source_;
  const std::unique_ptr<Allocator> allocator_;
  std::vector<int64_t> retries_;  // until the end of each step
  std::optional<Layout> layout_;  // after the last traced step, and every second one from there
  CardRun run_ = {.fits = true};
};

}  // namespace

CardRun RunOnCard(const Loop& loop, std::span<const int64_t> bytes, int steps, const CardRoom& room,
                  const AllocatorConf& conf) {
  return LoopPlayer(loop, bytes, room, conf).Run(steps);
}

TracePlace PlaceOf(const Trace& trace, size_t event) {
  TracePlace place;
  for (size_t i = 0; i <= event; ++i) {
    const Event& e = trace.events[i];
    if (e.type == Event::Type::kPhase) place = {e.phase, -1};
    if (e.type == Event::Type::kAt) place.at = e.id;
  }
  return place;
}

}  // namespace onnxfit
