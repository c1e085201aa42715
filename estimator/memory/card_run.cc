#include "estimator/memory/card_run.h"

#include <algorithm>

#include "estimator/memory/allocator.h"

namespace onnxfit {

CardRun RunOnCard(const Trace& trace, int64_t capacity_bytes) {
  const auto source = NewCountingSource(capacity_bytes);
  const auto allocator = NewCachingAllocator(*source);
  CardRun run = {.fits = true};
  for (const Event& event : trace.events) {
    switch (event.type) {
      case Event::Type::kAlloc:
        run.asked_bytes = trace.buffers[static_cast<size_t>(event.id)].bytes;
        run.fits = allocator->Alloc(event.id, run.asked_bytes);
        break;
      case Event::Type::kFree:
        allocator->Free(event.id);
        break;
      case Event::Type::kPhase:
        run.failed_step = event.id;
        run.failed_phase = event.phase;
        run.failed_at = -1;
        break;
      case Event::Type::kAt:
        run.failed_at = event.id;
        break;
      case Event::Type::kKind:
        break;
    }
    const AllocatorStats stats = allocator->stats();
    run.retries = stats.retries;
    run.peak_reserved_bytes = std::max(run.peak_reserved_bytes, stats.reserved_bytes);
    if (!run.fits) return run;
  }
  return {.fits = true, .retries = run.retries, .peak_reserved_bytes = run.peak_reserved_bytes};
}

}  // namespace onnxfit
