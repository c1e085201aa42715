#include "estimator/memory/card_run.h"

#include <algorithm>

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
    for (int step = 0; step <= steps && run_.fits; ++step) Play(step);
    return run_;
  }

 private:
  void Play(int step) {
    const int traced = std::min(step, loop_.traced_steps());
    const bool exchanged = (step - traced) % 2 == 1;
    for (const Loop::Call& call : loop_.CallsOf(static_cast<size_t>(traced))) {
      const BufferId buffer = exchanged ? loop_.twins[Index(call.buffer)] : call.buffer;
      if (call.frees) {
        allocator_->Free(buffer);
      } else if (!Alloc(buffer)) {
        return Fail(step, call, bytes_[Index(buffer)]);
      }
    }
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
