#include "estimator/memory/card_run.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
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
      if (loop_.EmptiesCacheBefore(call)) allocator_->EmptyCache();
      const BufferId buffer = loop_.BufferIn(step, call);
      if (call.frees) {
        Free(buffer);
      } else if (!Alloc(call.stream, buffer)) {
        if (!call.may_fail) return Fail(step, call, bytes_[Index(buffer)]);
        failed_ = buffer;
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

  void Free(BufferId buffer) {
    if (failed_ != buffer) return allocator_->Free(buffer);
    failed_.reset();
  }

  bool Alloc(StreamId stream, BufferId buffer) {
    const bool fits = allocator_->AllocOn(stream, buffer, bytes_[Index(buffer)]);
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
  std::optional<BufferId> failed_;  // what its owner went on without, and frees next
  std::vector<int64_t> retries_;    // until the end of each step
  std::optional<Layout> last_;      // after the step before, from the last but one traced on,
  std::optional<Layout> before_;    // and after that before it
  CardRun run_ = {.fits = true};
};

}  // namespace

CardRun RunOnCard(const Loop& loop, std::span<const int64_t> bytes, int steps, const CardRoom& room,
                  const AllocatorConf& conf) {
  return LoopPlayer(loop, bytes, room, conf).Run(steps);
}

namespace {

constexpr int64_t kBlockBytes = 512;  // what a request is rounded up to, where nothing else is said
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

CardRun PlayEndless(const Loop& loop, std::span<const int64_t> bytes, int steps,
                    const AllocatorConf& conf) {
  return RunOnCard(loop, bytes, steps, {kEndless}, conf);
}

// A request of no bytes asks for no block.
struct Pools {
  std::vector<int64_t> small;
  std::vector<int64_t> large;
};

Pools Apart(std::span<const int64_t> bytes, const AllocatorConf& conf) {
  const bool rounds = conf.roundup_divisions == AllocatorConf().roundup_divisions;
  Pools pools = {std::vector<int64_t>(bytes.size()), std::vector<int64_t>(bytes.size())};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_small = IsOfSmallPool(bytes[i], conf);
    const int64_t block = rounds && is_small ? RoundUp(bytes[i], kBlockBytes) : bytes[i];
    (is_small ? pools.small : pools.large)[i] = block;
  }
  return pools;
}

}  // namespace

int64_t EndlessPlays::ReservedBytes(const Loop& loop, std::span<const int64_t> bytes, int steps) {
  Pools pools = Apart(bytes, conf_);
  const CardRun large = PlayEndless(loop, pools.large, steps, conf_);
  const int64_t small = SmallBytes(loop, std::move(pools.small), steps);
  const bool fits = large.fits && small <= kEndless - large.peak_reserved_bytes;
  if (!fits) return PlayEndless(loop, bytes, steps, conf_).peak_reserved_bytes;
  return small + large.peak_reserved_bytes;
}

int64_t EndlessPlays::SmallBytes(const Loop& loop, std::vector<int64_t> bytes, int steps) {
  std::shared_ptr<const SmallPlay> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  const bool is_same = last && last->steps == steps && last->bytes == bytes &&
                       last->calls == loop.calls && last->cache_emptied_at == loop.cache_emptied_at;
  if (is_same) return last->reserved_bytes;
  const int64_t reserved = PlayEndless(loop, bytes, steps, conf_).peak_reserved_bytes;
  auto played = std::make_shared<SmallPlay>(
      SmallPlay{loop.calls, loop.cache_emptied_at, std::move(bytes), steps, reserved});
  const std::lock_guard lock(mutex_);
  last_ = std::move(played);
  return reserved;
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
