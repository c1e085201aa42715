// ONNX Runtime's memory arena, played: what it asks of a device for a sequence of requests.
//
// The arena takes regions from the device and cuts them into chunks.  A request gets the smallest
// free chunk that holds it; where there is none, the arena adds a region.  The rules are those of
// onnxruntime 1.31 (BFCArena in core/framework/bfc_arena.cc); 1.31.1's library does the same for
// the same requests.  Regions are taken to lie in memory in the order in which they are added.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit {

enum class ExtendStrategy : uint8_t {
  kNextPowerOfTwo,   // each region is twice as large as the one before
  kSameAsRequested,  // each region holds just the request
};

// Names and defaults are OrtArenaCfg's (core/framework/bfc_arena.h, onnxruntime 1.31).  Regions are
// multiples of 256 bytes: ONNX Runtime throws where a growth or maximum makes others.
struct ArenaConfig {
  ExtendStrategy extend_strategy = ExtendStrategy::kNextPowerOfTwo;
  int64_t initial_chunk_bytes = 1 * kMiB;         // of the first region
  int64_t initial_growth_chunk_bytes = 2 * kMiB;  // of the first region after Shrink()
  int64_t max_dead_bytes_per_chunk = 128 * kMiB;  // from this on, the rest of a chunk is split off
  int64_t max_power_of_two_extend_bytes = 1 * kGiB;  // for a larger request, regions double on
  int64_t memory_limit_bytes = 0;                    // gpu_mem_limit; 0: none
  int64_t capacity_bytes = 0;  // what the device has for this arena; 0: never full
};

// One region that was added.
struct ArenaExtension {
  int64_t requested_bytes = 0;  // what was to fit, rounded up to 256
  int64_t bytes = 0;            // of the region
  int64_t total_bytes = 0;      // of the arena, with it

  bool operator==(const ArenaExtension&) const = default;
};

// Names what was allocated, until it is freed; then the number is given out again.
using ArenaHandle = int32_t;

class BfcArena {
 public:
  explicit BfcArena(const ArenaConfig& config = {});

  // Takes a chunk.  nullopt: the limit or the device leaves no room for it; ONNX Runtime throws.
  // The handle of 0 bytes has no chunk.  O(log chunks).  Throws Error where the total needs more
  // than 63 bits.  REQUIRES: bytes >= 0.
  [[nodiscard]] std::optional<ArenaHandle> Allocate(int64_t bytes);

  // Takes `bytes` of the device, outside of all regions and of the limit, not rounded
  // (session.use_device_allocator_for_initializers).  nullopt: the device is full.
  [[nodiscard]] std::optional<ArenaHandle> Reserve(int64_t bytes);

  // Takes a chunk back and joins it with its free neighbours.  Regions stay; what was reserved
  // goes back to the device.  REQUIRES: the handle is Allocate's or Reserve's, not freed yet.
  void Free(ArenaHandle handle);

  // A run has a stream, to which the chunks belong that are taken between the two.  Until the run
  // ends, a free chunk of the stream joins only with others of the stream, not with memory that
  // the run has not touched; then all do.  Weights are taken outside of runs.  O(chunks).
  void BeginRun() { in_run_ = true; }
  void EndRun();

  // Gives regions back of which nothing is in use, but never the first of kNextPowerOfTwo, and
  // begins to grow anew (memory.enable_memory_arena_shrinkage).  O(chunks).
  void Shrink();

  // In bytes, as AllocatorStats has them: TotalAllocated, what is held of the device; InUse, the
  // chunks that are taken, each as large as it is, and what is reserved; MaxInUse.
  int64_t total_bytes() const { return total_bytes_; }
  int64_t in_use_bytes() const { return in_use_bytes_; }
  int64_t max_in_use_bytes() const { return max_in_use_bytes_; }

  // All that there were, in order, also of regions that were given back.
  const std::vector<ArenaExtension>& extensions() const { return extensions_; }

 private:
  using ChunkId = ArenaHandle;
  static constexpr ChunkId kNoChunk = -1;

  // A piece of a region.  Neighbours are linked in order of address.
  struct Chunk {
    int32_t region = 0;  // regions are numbered as they are added; -1: reserved
    int64_t offset = 0;
    int64_t bytes = 0;
    ChunkId previous = kNoChunk;
    ChunkId next = kNoChunk;
    bool is_free = false;
    bool is_of_run = false;
  };

  struct Region {
    int32_t number = 0;
    ChunkId first = kNoChunk;
    int64_t bytes = 0;
  };

  // Best fit: the smallest chunk, then the lowest address.  ONNX Runtime keeps 21 bins by powers
  // of two, each in this order, which comes to the same.
  struct Key {
    int64_t bytes = 0;
    int32_t region = 0;
    int64_t offset = 0;
    ChunkId id = kNoChunk;

    bool operator<(const Key& other) const {
      if (bytes != other.bytes) return bytes < other.bytes;
      if (region != other.region) return region < other.region;
      return offset < other.offset;
    }
  };

  Chunk& At(ChunkId id) { return chunks_[Index(id)]; }
  Key KeyOf(ChunkId id);
  ChunkId Add(const Chunk& chunk);
  void Count(int64_t bytes);  // taken

  ChunkId FindFree(int64_t bytes) const;
  ChunkId Take(ChunkId id, int64_t bytes);
  void SplitTail(ChunkId id, int64_t bytes);
  bool CanJoin(ChunkId front, ChunkId back);
  void JoinNext(ChunkId id);
  bool IsInUse(const Region& region);
  void GiveBack(const Region& region);

  bool Extend(int64_t bytes);
  int64_t AvailableBytes() const;
  int64_t ExtensionBytes(int64_t bytes);
  bool DeviceHas(int64_t bytes) const;
  void AddRegion(int64_t bytes);

  const ArenaConfig config_;
  int64_t step_bytes_;  // how large the next region of kNextPowerOfTwo is
  bool in_run_ = false;
  std::vector<Chunk> chunks_;
  std::vector<ChunkId> unused_;  // ids of chunks that are no more
  std::set<Key> free_;
  std::vector<Region> regions_;  // in order of address
  int32_t regions_made_ = 0;
  std::vector<ArenaExtension> extensions_;
  int64_t total_bytes_ = 0;
  int64_t in_use_bytes_ = 0;
  int64_t max_in_use_bytes_ = 0;
};

}  // namespace onnxfit
