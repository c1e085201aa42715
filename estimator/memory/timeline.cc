#include "estimator/memory/timeline.h"

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/memory/endless_card.h"

namespace onnxfit {

void Peak::Raise(const AllocatorStats& stats) {
  exact_bytes = std::max(exact_bytes, stats.requested_bytes);
  allocated_bytes = std::max(allocated_bytes, stats.allocated_bytes);
  reserved_bytes = std::max(reserved_bytes, stats.reserved_bytes);
}

void Peak::Raise(const Peak& other) {
  exact_bytes = std::max(exact_bytes, other.exact_bytes);
  allocated_bytes = std::max(allocated_bytes, other.allocated_bytes);
  reserved_bytes = std::max(reserved_bytes, other.reserved_bytes);
}

namespace {

// First pass: what is held after every event; where the peak is.
class Measure {
 public:
  Measure(const Trace& trace, const AllocatorConf& conf) : trace_(trace), card_(conf) {}

  // Fills everything of `timeline` but what is alive at the peak.  Returns how many
  // events lead up to the peak.
  size_t Run(Timeline& timeline) {
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.EmptiesCacheAt(i)) card_.EmptyCache();
      Apply(trace_.events[i], timeline);
      if (card_.stats().allocated_bytes <= timeline.allocated_at_peak) continue;
      NotePeak(timeline);
      events_to_peak_ = i + 1;
    }
    Finish(timeline);
    return events_to_peak_;
  }

 private:
  void Apply(const Event& event, Timeline& timeline) {
    switch (event.type) {
      case Event::Type::kAlloc:
        card_.Alloc(event.id, trace_.buffers[Index(event.id)]);
        now_.Raise(card_.stats());
        break;
      case Event::Type::kFree:
        card_.Free(event.id);
        break;
      case Event::Type::kPhase:
        EnterPhase(event, timeline);
        break;
      case Event::Type::kAt:
        at_ = event.id;
        break;
      case Event::Type::kKind:
        break;
    }
  }

  void EnterPhase(const Event& event, Timeline& timeline) {
    ClosePhase(timeline);
    if (event.id != step_) {
      timeline.peak.Raise(now_);
      now_ = {};
      now_.Raise(card_.stats());
    }
    step_ = event.id;
    phase_ = event.phase;
    at_ = -1;
  }

  void ClosePhase(Timeline& timeline) {
    if (step_ == 0) return;
    if (timeline.steps.size() < Index(step_)) timeline.steps.resize(Index(step_));
    StepFigures& step = timeline.steps[Index(step_) - 1];
    step.peak = now_;
    AllocatorStats& after = phase_ == Phase::kForward    ? step.after_forward
                            : phase_ == Phase::kBackward ? step.after_backward
                                                         : step.after_step;
    after = card_.stats();
  }

  void NotePeak(Timeline& timeline) {
    timeline.allocated_at_peak = card_.stats().allocated_bytes;
    timeline.exact_at_peak = card_.stats().requested_bytes;
    timeline.peak_step = step_;
    timeline.peak_phase = phase_;
    timeline.peak_at = at_;
  }

  void Finish(Timeline& timeline) {
    ClosePhase(timeline);
    timeline.peak.Raise(now_);
  }

  const Trace& trace_;
  EndlessCard card_;
  Peak now_;  // of the running step
  int32_t step_ = 0;
  Phase phase_ = Phase::kSetup;
  int32_t at_ = -1;
  size_t events_to_peak_ = 0;
};

// Which operator runs, in which phase.
struct Clock {
  int32_t at = -1;
  Phase phase = Phase::kSetup;
  int32_t step = 0;

  void Follow(const Event& event) {
    if (event.type == Event::Type::kAt) at = event.id;
    if (event.type != Event::Type::kPhase) return;
    at = -1;
    phase = event.phase;
    step = event.id;
  }
};

// Second pass: what is alive after the first `count` events, in order of birth.
std::vector<LiveBuffer> LiveAfter(const Trace& trace, size_t count) {
  std::vector<LiveBuffer> all(trace.buffers.size());
  std::vector<bool> alive(trace.buffers.size());
  std::vector<BufferId> births;
  Clock clock;
  for (size_t i = 0; i < count; ++i) {
    const Event& event = trace.events[i];
    clock.Follow(event);
    if (event.type == Event::Type::kFree) alive[Index(event.id)] = false;
    if (event.type == Event::Type::kKind) all[Index(event.id)].kind = event.kind;
    if (event.type != Event::Type::kAlloc) continue;
    all[Index(event.id)] = {
        .buffer = event.id, .kind = event.kind, .born = clock.at, .born_in = clock.phase};
    alive[Index(event.id)] = true;
    births.push_back(event.id);
  }
  std::vector<LiveBuffer> live;
  for (const BufferId id : births) {
    if (alive[Index(id)]) live.push_back(all[Index(id)]);
  }
  return live;
}

// Third pass: where those that are alive after `count` events, in `step`, die.
void NoteDeaths(const Trace& trace, size_t count, int32_t step, std::vector<LiveBuffer>& live) {
  std::vector<std::optional<Clock>> dies(trace.buffers.size());
  Clock clock;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    clock.Follow(event);
    if (event.type == Event::Type::kFree && i >= count) dies[Index(event.id)] = clock;
  }
  for (LiveBuffer& buffer : live) {
    const std::optional<Clock>& death = dies[Index(buffer.buffer)];
    if (!death) continue;
    buffer.dies = death->at;
    buffer.dies_in = death->phase;
    buffer.dies_later = death->step > step;
  }
}

}  // namespace

Timeline Replay(const Trace& trace, const AllocatorConf& conf) {
  Timeline timeline;
  const size_t count = Measure(trace, conf).Run(timeline);
  timeline.live_at_peak = LiveAfter(trace, count);
  NoteDeaths(trace, count, timeline.peak_step, timeline.live_at_peak);
  for (const LiveBuffer& live : timeline.live_at_peak) {
    timeline.bytes_by_kind[static_cast<size_t>(live.kind)] +=
        trace.buffers[Index(live.buffer)].bytes;
  }
  return timeline;
}

}  // namespace onnxfit
