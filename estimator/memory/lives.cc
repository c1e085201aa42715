#include "estimator/memory/lives.h"

#include <utility>

#include "estimator/base/index.h"
#include "estimator/memory/endless_card.h"

namespace onnxfit {
namespace {

class Reader {
 public:
  Reader(const Trace& trace, const AllocatorConf& conf) : trace_(trace), card_(conf) {
    lives_.of_buffer.resize(trace.buffers.size());
    lives_.of_event.reserve(trace.events.size());
  }

  Lives Read() {
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.EmptiesCacheAt(i)) card_.EmptyCache();
      Follow(trace_.events[i]);
      lives_.of_event.push_back(now_);
    }
    return std::move(lives_);
  }

 private:
  int64_t Place() const { return static_cast<int64_t>(lives_.of_event.size()); }
  StepEvents* Step() { return now_.step == 0 ? nullptr : &lives_.steps[Index(now_.step) - 1]; }

  void Follow(const Event& event) {
    switch (event.type) {
      case Event::Type::kAlloc:
        return Alloc(event);
      case Event::Type::kFree:
        return Free(event);
      case Event::Type::kKind:
        lives_.of_buffer[Index(event.id)].kind = event.kind;
        return;
      case Event::Type::kPhase:
        return EnterPhase(event);
      case Event::Type::kAt:
        now_.at = event.id;
        ++now_.operators;
        return;
    }
  }

  void Alloc(const Event& event) {
    const int64_t before = card_.stats().allocated_bytes;
    card_.Alloc(event.id, trace_.buffers[Index(event.id)]);
    const int64_t allocated = card_.stats().allocated_bytes;
    lives_.of_buffer[Index(event.id)] = {
        .born = Place(), .block_bytes = allocated - before, .kind = event.kind};
    if (allocated > lives_.peak_allocated_bytes) {
      lives_.peak = Place();
      lives_.peak_allocated_bytes = allocated;
    }
    StepEvents* step = Step();
    if (step == nullptr) return;
    ++step->allocations;
    if (step->largest < 0 || BytesOf(event.id) > BytesOf(step->largest)) step->largest = event.id;
    if (allocated <= step->peak_allocated_bytes) return;
    step->peak_allocated_bytes = allocated;
    step->peak = now_;
  }

  void Free(const Event& event) {
    card_.Free(event.id);
    lives_.of_buffer[Index(event.id)].dies = Place();
    if (StepEvents* step = Step(); step != nullptr) ++step->frees;
  }

  void EnterPhase(const Event& event) {
    now_.step = event.id;
    now_.phase = event.phase;
    now_.at = -1;
    if (lives_.steps.size() >= Index(event.id)) return;
    lives_.steps.resize(Index(event.id));
    lives_.steps.back().peak_allocated_bytes = card_.stats().allocated_bytes;
    lives_.steps.back().peak = now_;
  }

  int64_t BytesOf(BufferId buffer) const { return trace_.buffers[Index(buffer)].bytes; }

  const Trace& trace_;
  EndlessCard card_;
  Lives lives_;
  Moment now_;
};

}  // namespace

Lives ReadLives(const Trace& trace, const AllocatorConf& conf) {
  return Reader(trace, conf).Read();
}

}  // namespace onnxfit
