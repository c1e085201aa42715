// Who hands out memory.  Callers name buffers and never see an address.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/segment_source.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// What an allocator holds, in bytes, under the names of torch.cuda.memory_stats:
// requested <= allocated (adds rounding) <= reserved (adds cached, free blocks).
struct AllocatorStats {
  int64_t requested_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t retries = 0;  // num_alloc_retries: cached segments were given back first

  bool operator==(const AllocatorStats&) const = default;
};

// Where everything lies.  Two allocators of one kind whose layouts are equal do the same from
// there on, if they are asked the same.
struct Layout {
  struct Place {
    int32_t segment = -1;  // index into `segments`; -1: the buffer is not live, or has no bytes
    int64_t offset = 0;
    int64_t bytes = 0;  // of its block

    bool operator==(const Place&) const = default;
  };
  std::vector<int64_t> segments = {};  // their sizes, oldest first
  std::vector<StreamId> streams = {};  // by segment
  std::vector<Place> places = {};      // by BufferId

  bool operator==(const Layout&) const = default;
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  // Gives `buffer` its memory.  Returns false when the device is full: that is an
  // answer, not an error, and `buffer` then has no memory.  0 bytes need no memory.
  // REQUIRES: bytes >= 0; `buffer` is not live.
  [[nodiscard]] virtual bool AllocOn(StreamId stream, BufferId buffer, int64_t bytes) = 0;
  [[nodiscard]] bool Alloc(BufferId buffer, int64_t bytes) {
    return AllocOn(kMainStream, buffer, bytes);
  }

  // Takes the memory of `buffer` back.  REQUIRES: `buffer` is live.
  virtual void Free(BufferId buffer) = 0;

  virtual AllocatorStats stats() const = 0;

  // Gives back to the card what is free as a whole (torch.cuda.empty_cache).
  virtual void EmptyCache() {}

  // Where `buffer` lies, its segment as the SegmentSource numbers it; nullopt where it has no
  // bytes, or where there are no segments.  REQUIRES: `buffer` is live.
  virtual std::optional<Layout::Place> PlaceOf(BufferId /*buffer*/) const { return std::nullopt; }

  // nullopt where what is live does not decide what comes.  O(buffers + blocks).
  virtual std::optional<Layout> layout() const { return std::nullopt; }
};

// Counts bytes and nothing more: no rounding, no cache, no fragmentation.  Its peak is
// a lower bound on the peak of every other allocator.  Never full.
std::unique_ptr<Allocator> NewExactAllocator();

// PyTorch's policy: 512-byte blocks cut from segments of 2 MiB, 20 MiB or a multiple of
// 2 MiB (c10/cuda/CUDACachingAllocator.cpp, 2.6 to 2.11), or as `conf` says.  When `source`
// is full, what is free as a whole goes back to it, then it is asked once more.  Each stream has
// blocks of its own.
// Alloc and Free move as many free blocks of 24 bytes, at most.  `source` must outlive it.
std::unique_ptr<Allocator> NewCachingAllocator(SegmentSource& source,
                                               const AllocatorConf& conf = {});

// Whether a request of `bytes` gets a block of the small pool: it has segments of its own.
bool IsOfSmallPool(int64_t bytes, const AllocatorConf& conf);

// What PyTorch's asks the card for where a request finds no block, as its message says.
int64_t TriedBytes(int64_t requested_bytes, const AllocatorConf& conf);

}  // namespace onnxfit
