// The blocks of a caching allocator: pieces of segments, and which of them are free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

inline constexpr int64_t kSmallBytes = 1 * kMiB;  // kSmallSize

// Whether a block of this size belongs to the small pool.
constexpr bool IsSmall(int64_t block_bytes) { return block_bytes <= kSmallBytes; }

// A piece of a segment.  Neighbours are linked in order of offset.
struct Block {
  int32_t segment = 0;  // segments are numbered as they are made
  int64_t offset = 0;
  int64_t bytes = 0;
  BlockId previous = kNoBlock;
  BlockId next = kNoBlock;
  bool is_small = false;  // its pool
  bool is_free = false;   // in its pool, for anyone to take
  bool is_mapped = true;  // has memory; else it is addresses alone (expandable segments)
  int64_t freed_at = 0;   // how many searches its pool had seen when it became free
};

// The free blocks of small or of large requests.
struct Pool {
  // Best fit: the smallest block, then the oldest segment, then the lowest offset.
  struct Key {
    int64_t bytes = 0;
    int32_t segment = -1;
    BlockId id = kNoBlock;
    int64_t offset = -1;

    bool operator<(const Key& other) const {
      if (bytes != other.bytes) return bytes < other.bytes;
      if (segment != other.segment) return segment < other.segment;
      return offset < other.offset;
    }
  };

  // In order, side by side: there are few at a time, and moving them costs less than a tree does.
  class Blocks {
   public:
    using iterator = std::vector<Key>::const_iterator;

    iterator begin() const { return keys_.begin(); }
    iterator end() const { return keys_.end(); }
    bool empty() const { return keys_.empty(); }
    const Key& largest() const { return keys_.back(); }
    iterator lower_bound(const Key& key) const {
      return std::lower_bound(keys_.begin(), keys_.end(), key);
    }
    void insert(const Key& key) { keys_.insert(lower_bound(key), key); }
    void erase(const Key& key) { keys_.erase(lower_bound(key)); }  // REQUIRES: it is there
    void erase(iterator at) { keys_.erase(at); }

   private:
    std::vector<Key> keys_;
  };

  Blocks cached;         // with memory
  Blocks unmapped;       // without, in order of address: the size in their key is 0
  int64_t searches = 0;  // for a free block
};

class BlockList {
 public:
  Block& At(BlockId id) { return blocks_[Index(id)]; }
  const Block& At(BlockId id) const { return blocks_[Index(id)]; }

  // Those that end a segment, in no order.
  std::vector<BlockId> LastOfSegments() const;

  Pool& PoolFor(bool is_small) { return is_small ? small_ : large_; }

  // A new block, in no pool.
  BlockId Add(const Block& block);

  // Forgets a block that is in no pool and has no neighbours.
  void Drop(BlockId id) { unused_.push_back(id); }

  // Puts a block into its pool, and takes it out.
  void MakeFree(BlockId id);
  void Take(BlockId id);
  BlockId TakeAt(Pool::Blocks& blocks, Pool::Blocks::iterator at);  // where it was found

  // Cuts a block that is in no pool after its first `bytes`.  Returns the rest, in no pool.
  BlockId SplitTail(BlockId id, int64_t bytes);

  // try_merge_blocks: joins a block that is in no pool with its free neighbours that have
  // memory as it has, or have none as it has none.  Returns the whole, in no pool.
  BlockId Merge(BlockId id);

 private:
  bool CanJoin(BlockId id, BlockId neighbour);
  void Absorb(BlockId front, BlockId back);
  Pool::Blocks& SetOf(const Block& block);

  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;  // ids of blocks that are no more
  Pool small_;
  Pool large_;
};

}  // namespace onnxfit
