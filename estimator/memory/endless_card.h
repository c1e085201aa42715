// The caching allocator on a card that is never full: what a run asks for, whatever fits.
#pragma once

#include <memory>
#include <optional>

#include "estimator/memory/allocator.h"
#include "estimator/memory/segment_source.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

class EndlessCard {
 public:
  // Of `conf`, limits and garbage collection have no effect: no share of an endless card
  // is a limit.
  explicit EndlessCard(AllocatorConf conf = {});

  // Throws Error where the sum of what is held needs more than 63 bits.
  void Alloc(BufferId id, const Buffer& buffer);
  void Free(BufferId buffer) { allocator_->Free(buffer); }
  void EmptyCache() { allocator_->EmptyCache(); }
  AllocatorStats stats() const { return allocator_->stats(); }
  // As Allocator::PlaceOf.
  std::optional<Layout::Place> PlaceOf(BufferId buffer) const {
    return allocator_->PlaceOf(buffer);
  }

 private:
  std::unique_ptr<SegmentSource> source_;
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace onnxfit
