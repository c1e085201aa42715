// What PYTORCH_ALLOC_CONF changes about the caching allocator, as far as it changes bytes.
// The options are those of PyTorch 2.11 (c10/core/AllocatorConfig.h and
// c10/cuda/CUDAAllocatorConfig.h); what each one does is in the allocator
// (c10/cuda/CUDACachingAllocator.cpp, 2.6 and a main of November 2025).
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "estimator/base/bytes.h"

namespace onnxfit {

struct AllocatorConf {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // expandable_segments: one segment a pool, that grows by pages; and no block is handed
  // out larger than it has to be.
  bool expandable_segments = false;

  // large_segment_size_mb (above 10): the segment for blocks above 1 MiB and below 10 MiB;
  // the page of the large pool of expandable segments.
  int64_t large_segment_bytes = 20 * kMiB;

  // max_split_size_mb (from large_segment_size_mb): blocks of this size or more are neither
  // split nor given to requests below it, and go back first where the card is full.
  int64_t max_split_bytes = kUnlimited;

  // max_non_split_rounding_mb (from large_segment_size_mb, which is the default): by less
  // than this may such a block be larger than the request that gets it.
  int64_t max_non_split_rounding_bytes = 20 * kMiB;

  // roundup_power2_divisions: requests are rounded up to the next of so many equal steps
  // between two powers of 2; 0 and 1 round to 512 bytes.  By size class: requests below
  // 2 MiB, below 4 MiB, …, below 32 GiB, all others.
  std::array<int64_t, 16> roundup_divisions = {};

  // per_process_memory_fraction (0 to 1): how much of the card's total may be reserved.
  // 1 sets no limit.
  double memory_fraction = 1;

  // garbage_collection_threshold (between 0 and 1; 0 is off): above this share of what may
  // be reserved, cached segments that were long unused go back before a new one is taken.
  // Without a limit it has no effect.
  double garbage_collection_threshold = 0;

  bool operator==(const AllocatorConf&) const = default;
};

}  // namespace onnxfit
