// How a caching allocator gets blocks from the card: as segments of a fixed size, or as
// pages of one segment that grows.
#pragma once

#include <cstdint>
#include <memory>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/block_list.h"
#include "estimator/memory/segment_source.h"

namespace onnxfit {

class Segments {
 public:
  virtual ~Segments() = default;

  // A block of at least `bytes` with new memory, in no pool; kNoBlock where the card is full.
  virtual BlockId New(int64_t bytes, StreamId stream) = 0;

  // release_cached_blocks: gives back what is free as a whole.
  virtual void ReleaseCached() = 0;

  // release_available_cached_blocks: gives back free blocks of that stream that are never split,
  // until `bytes` might fit.  Returns false where they do not suffice.
  virtual bool ReleaseOversize(int64_t /*bytes*/, StreamId /*stream*/) { return false; }

  // garbage_collect_cached_blocks: gives back long unused segments while more than
  // `kept_bytes` are reserved.
  virtual void CollectGarbage(int64_t /*kept_bytes*/) {}

  virtual int64_t reserved_bytes() const = 0;
};

// get_allocation_size: what is asked of the card for a block, where segments do not grow.
int64_t SegmentBytes(int64_t block_bytes, const AllocatorConf& conf);

inline constexpr int64_t kSmallSegmentBytes = 2 * kMiB;  // kSmallBuffer

// `blocks` and `source` must outlive them.
std::unique_ptr<Segments> NewFixedSegments(BlockList& blocks, SegmentSource& source,
                                           const AllocatorConf& conf);
std::unique_ptr<Segments> NewExpandableSegments(BlockList& blocks, SegmentSource& source,
                                                const AllocatorConf& conf);

}  // namespace onnxfit
