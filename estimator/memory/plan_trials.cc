#include "estimator/memory/plan_trials.h"

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/memory/endless_card.h"
#include "estimator/memory/segments.h"

namespace onnxfit {
namespace {

// The largest segment that `left_bytes` of the card hold; nothing where the least of large blocks
// is more.
int64_t LargestSegment(int64_t left_bytes, const AllocatorConf& conf) {
  if (left_bytes < conf.large_segment_bytes) return 0;
  return left_bytes / kSmallSegmentBytes * kSmallSegmentBytes;
}

}  // namespace

bool HasTrials(const Trace& trace) { return std::ranges::any_of(trace.buffers, &Buffer::is_trial); }

void LimitTrials(int64_t room_bytes, const AllocatorConf& conf, Trace& trace) {
  EndlessCard card(conf);
  for (size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.EmptiesCacheAt(i)) card.EmptyCache();
    const Event& event = trace.events[i];
    if (event.type == Event::Type::kFree) card.Free(event.id);
    if (event.type != Event::Type::kAlloc) continue;
    Buffer& buffer = trace.buffers[Index(event.id)];
    const int64_t before = card.stats().reserved_bytes;
    card.Alloc(event.id, buffer);
    const int64_t reserved = card.stats().reserved_bytes;
    if (!buffer.is_trial || reserved == before || reserved <= room_bytes) continue;
    buffer.bytes = std::min(buffer.bytes, LargestSegment(room_bytes - before, conf));
    buffer.dims = {buffer.bytes};
  }
}

Trace WithoutTrials(Trace trace) {
  for (Buffer& buffer : trace.buffers) {
    if (buffer.is_trial) buffer.bytes = 0;
  }
  return trace;
}

}  // namespace onnxfit
