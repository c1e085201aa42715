// PyTorch's CUDACachingAllocator with its default configuration: reference tree v2.6.0,
// c10/cuda/CUDACachingAllocator.cpp (function names below); the same rules and constants up
// to 2.11.
#include <cassert>
#include <set>
#include <tuple>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {
namespace {

constexpr int64_t kMinBlockBytes = 512;            // kMinBlockSize
constexpr int64_t kSmallBytes = 1 * kMiB;          // kSmallSize: up to this, the small pool
constexpr int64_t kSmallSegmentBytes = 2 * kMiB;   // kSmallBuffer
constexpr int64_t kLargeSegmentBytes = 20 * kMiB;  // kLargeBuffer
constexpr int64_t kMinLargeBytes = 10 * kMiB;      // kMinLargeAlloc: from this, its own segment
constexpr int64_t kRoundLargeBytes = 2 * kMiB;     // kRoundLarge

// round_size: what a request occupies at least.
int64_t BlockBytes(int64_t bytes) {
  return bytes < kMinBlockBytes ? kMinBlockBytes : RoundUp(bytes, kMinBlockBytes);
}

// get_allocation_size: what is asked of the card when no free block fits.
int64_t SegmentBytes(int64_t block_bytes) {
  if (block_bytes <= kSmallBytes) return kSmallSegmentBytes;
  if (block_bytes < kMinLargeBytes) return kLargeSegmentBytes;
  return RoundUp(block_bytes, kRoundLargeBytes);
}

using BlockId = int32_t;
constexpr BlockId kNoBlock = -1;

// A piece of a segment.  Neighbours are linked in order of offset.
struct Block {
  int32_t segment = 0;  // segments are numbered as they are made
  int64_t offset = 0;
  int64_t bytes = 0;
  BlockId previous = kNoBlock;
  BlockId next = kNoBlock;
  bool is_small = false;
  bool is_free = false;
};

class CachingAllocator : public Allocator {
 public:
  explicit CachingAllocator(SegmentSource& source) : source_(source) {}

  bool Alloc(BufferId buffer, int64_t bytes) override {
    Owned& owned = OwnedOf(buffer);
    assert(!owned.live);
    owned = {.block = kNoBlock, .requested_bytes = bytes, .live = true};
    if (bytes == 0) return true;
    const int64_t block_bytes = BlockBytes(bytes);
    owned.block = TakeFree(block_bytes);
    if (owned.block == kNoBlock) owned.block = NewSegment(block_bytes);
    owned.live = owned.block != kNoBlock;
    if (!owned.live) return false;
    Split(owned.block, block_bytes);
    stats_.requested_bytes = CheckedAdd(stats_.requested_bytes, bytes);
    stats_.allocated_bytes = CheckedAdd(stats_.allocated_bytes, At(owned.block).bytes);
    return true;
  }

  void Free(BufferId buffer) override {
    Owned& owned = OwnedOf(buffer);
    assert(owned.live);
    owned.live = false;
    if (owned.block == kNoBlock) return;
    stats_.requested_bytes -= owned.requested_bytes;
    stats_.allocated_bytes -= At(owned.block).bytes;
    const BlockId merged = MergeWithNeighbours(owned.block);
    At(merged).is_free = true;
    PoolOf(merged).insert(KeyOf(merged));
  }

  AllocatorStats stats() const override { return stats_; }

 private:
  struct Owned {
    BlockId block = kNoBlock;
    int64_t requested_bytes = 0;
    bool live = false;
  };

  // Best fit: the smallest free block, then the oldest segment, then the lowest offset.
  using Key = std::tuple<int64_t, int32_t, int64_t, BlockId>;
  using Pool = std::set<Key>;

  Block& At(BlockId id) { return blocks_[Index(id)]; }

  Owned& OwnedOf(BufferId buffer) {
    const auto index = static_cast<size_t>(buffer);
    if (index >= owned_.size()) owned_.resize(index + 1);
    return owned_[index];
  }

  Pool& PoolOf(BlockId id) { return At(id).is_small ? small_ : large_; }

  Key KeyOf(BlockId id) {
    const Block& block = At(id);
    return {block.bytes, block.segment, block.offset, id};
  }

  BlockId NewBlock(const Block& block) {
    if (unused_.empty()) {
      blocks_.push_back(block);
      return static_cast<BlockId>(blocks_.size() - 1);
    }
    const BlockId id = unused_.back();
    unused_.pop_back();
    At(id) = block;
    return id;
  }

  // get_free_block: the best fit among free blocks, taken out of its pool.
  BlockId TakeFree(int64_t block_bytes) {
    Pool& pool = block_bytes <= kSmallBytes ? small_ : large_;
    const auto found = pool.lower_bound({block_bytes, -1, -1, kNoBlock});
    if (found == pool.end()) return kNoBlock;
    const BlockId id = std::get<3>(*found);
    pool.erase(found);
    At(id).is_free = false;
    return id;
  }

  // alloc_block, with release_cached_blocks before the second try.  kNoBlock: full.
  BlockId NewSegment(int64_t block_bytes) {
    const int64_t bytes = SegmentBytes(block_bytes);
    if (!source_.Take(segments_, bytes)) {
      ++stats_.retries;
      ReleaseCached(large_);
      ReleaseCached(small_);
      if (!source_.Take(segments_, bytes)) return kNoBlock;
    }
    stats_.reserved_bytes = CheckedAdd(stats_.reserved_bytes, bytes);
    return NewBlock(
        {.segment = segments_++, .bytes = bytes, .is_small = block_bytes <= kSmallBytes});
  }

  // Gives back the segments of `pool` that are one free block.
  void ReleaseCached(Pool& pool) {
    for (auto entry = pool.begin(); entry != pool.end();) {
      const BlockId id = std::get<3>(*entry);
      const Block& block = At(id);
      const bool is_whole = block.previous == kNoBlock && block.next == kNoBlock;
      if (!is_whole) {
        ++entry;
        continue;
      }
      source_.GiveBack(block.segment, block.bytes);
      stats_.reserved_bytes -= block.bytes;
      unused_.push_back(id);
      entry = pool.erase(entry);
    }
  }

  // should_split, alloc_found_block: gives the tail back, unless it is too small to be
  // of use; a large block then keeps up to 1 MiB more than was asked for.
  void Split(BlockId id, int64_t block_bytes) {
    const int64_t tail_bytes = At(id).bytes - block_bytes;
    const bool worth_it = At(id).is_small ? tail_bytes >= kMinBlockBytes : tail_bytes > kSmallBytes;
    if (!worth_it) return;
    Block tail = At(id);
    tail.offset += block_bytes;
    tail.bytes = tail_bytes;
    tail.previous = id;
    tail.is_free = true;
    const BlockId tail_id = NewBlock(tail);
    if (tail.next != kNoBlock) At(tail.next).previous = tail_id;
    At(id).next = tail_id;
    At(id).bytes = block_bytes;
    PoolOf(tail_id).insert(KeyOf(tail_id));
  }

  // try_merge_blocks with the block before, then with the one behind.
  BlockId MergeWithNeighbours(BlockId id) {
    const BlockId previous = At(id).previous;
    if (previous != kNoBlock && At(previous).is_free) {
      Absorb(previous, id);
      id = previous;
    }
    const BlockId next = At(id).next;
    if (next != kNoBlock && At(next).is_free) Absorb(id, next);
    return id;
  }

  // `front` grows by its neighbour `back`; a free one of the two leaves its pool.
  void Absorb(BlockId front, BlockId back) {
    if (At(front).is_free) PoolOf(front).erase(KeyOf(front));
    if (At(back).is_free) PoolOf(back).erase(KeyOf(back));
    At(front).is_free = false;
    At(front).bytes += At(back).bytes;
    At(front).next = At(back).next;
    if (At(front).next != kNoBlock) At(At(front).next).previous = front;
    unused_.push_back(back);
  }

  SegmentSource& source_;
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;  // ids of blocks that were merged away
  std::vector<Owned> owned_;     // by BufferId
  Pool small_;
  Pool large_;
  int32_t segments_ = 0;
  AllocatorStats stats_;
};

}  // namespace

std::unique_ptr<Allocator> NewCachingAllocator(SegmentSource& source) {
  return std::make_unique<CachingAllocator>(source);
}

}  // namespace onnxfit
