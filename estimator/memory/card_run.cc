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
        ends_when_full_(room.ends_when_full),
        source_(NewCountingSource(room.capacity_bytes, room.held_bytes)),
        allocator_(NewCachingAllocator(*source_, conf)) {}

  CardRun Run(int steps) {
    for (int step = 0; step <= steps && run_.fits; ++step) {
      Play(step);
      retries_.push_back(run_.retries);
      const int turn = run_.fits ? TurnAt(step) : 0;
      if (turn == 0) continue;
      run_.retries += RetriesAfter(step, steps, turn);
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

  // 1 where the card is as it was a step before, with the twins of the buffers that were live
  // then, and 2 where it is as it was two steps before, where the same ones were: then all that is
  // left comes as it came since.  (Batches often take turns in two places.)  Else 0.
  int TurnAt(int step) {
    if (!loop_.repeats() || step < loop_.traced_steps() - 1) return 0;
    std::optional<Layout> now = allocator_->layout();
    const bool is_alike = now && last_ && AreTwins(*now, *last_);
    const bool is_same = now && now == before_;
    before_ = std::exchange(last_, std::move(now));
    return is_alike ? 1 : is_same ? 2 : 0;
  }

  bool AreTwins(const Layout& a, const Layout& b) const {
    if (a.segments != b.segments) return false;
    const size_t count = std::max(a.places.size(), b.places.size());
    const auto place = [](const Layout& layout, BufferId buffer) {
      const auto at = static_cast<size_t>(buffer);
      return at < layout.places.size() ? layout.places[at] : Layout::Place();
    };
    for (size_t i = 0; i < count; ++i) {
      const auto buffer = static_cast<BufferId>(i);
      if (place(a, loop_.twins[i]) != place(b, buffer)) return false;
    }
    return true;
  }

  // Of the steps that are left, where the last `turn` of them are repeated.
  int64_t RetriesAfter(int step, int steps, int turn) const {
    const auto of = [&](int s) { return retries_[Index(s)] - retries_[Index(s - 1)]; };
    const int64_t left = steps - step;
    if (turn == 1) return left * of(step);
    return left / 2 * (of(step) + of(step - 1)) + left % 2 * of(step - 1);
  }

  bool Alloc(BufferId buffer) {
    const bool fits = allocator_->Alloc(buffer, bytes_[Index(buffer)]);
    const AllocatorStats stats = allocator_->stats();
    run_.retries = stats.retries;
    run_.peak_reserved_bytes = std::max(run_.peak_reserved_bytes, stats.reserved_bytes);
    return fits && !(ends_when_full_ && stats.retries > 0);
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
  const bool ends_when_full_;
  const std::unique_ptr<SegmentSource> source_;
  const std::unique_ptr<Allocator> allocator_;
  std::vector<int64_t> retries_;  // until the end of each step
  std::optional<Layout> last_;    // after the step before, from the last but one traced on,
  std::optional<Layout> before_;  // and after that before it
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
