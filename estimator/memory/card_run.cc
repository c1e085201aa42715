#include "estimator/memory/card_run.h"

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {

CardRun RunOnCard(const Trace& trace, int64_t capacity_bytes, const AllocatorConf& conf,
                  int64_t held_bytes) {
  const auto source = NewCountingSource(capacity_bytes, held_bytes);
  const auto allocator = NewCachingAllocator(*source, conf);
  CardRun run = {.fits = true};
  Event phase;
  int32_t at = -1;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) phase = event;
    if (event.type == Event::Type::kPhase) at = -1;
    if (event.type == Event::Type::kAt) at = event.id;
    if (event.type == Event::Type::kFree) allocator->Free(event.id);
    if (event.type != Event::Type::kAlloc) continue;
    const int64_t bytes = trace.buffers[Index(event.id)].bytes;
    run.fits = allocator->Alloc(event.id, bytes);
    const AllocatorStats stats = allocator->stats();
    run.retries = stats.retries;
    run.peak_reserved_bytes = std::max(run.peak_reserved_bytes, stats.reserved_bytes);
    if (run.fits) continue;
    run.failed_step = phase.id;
    run.failed_phase = phase.phase;
    run.failed_at = at;
    run.asked_bytes = bytes;
    return run;
  }
  return run;
}

}  // namespace onnxfit
