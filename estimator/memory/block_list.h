// The blocks of a caching allocator: pieces of segments, and which of them are free.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/memory/trace.h"

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
  StreamId stream = kMainStream;
  bool is_free = false;   // in its pool, for anyone to take
  bool is_mapped = true;  // has memory; else it is addresses alone (expandable segments)
  int64_t freed_at = 0;   // how many searches its pool had seen when it became free
};

// The free blocks of small or of large requests on one stream.
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

  // In order, by classes of about the same size: what is looked for lies in the first class that
  // has anything, mostly among a few.
  class Blocks {
   public:
    // A place in that order.  Valid until blocks come or go.
    struct Place {
      size_t size_class = kClasses;
      size_t index = 0;

      bool operator==(const Place&) const = default;
    };

    Place begin() const { return FirstFrom(0); }
    Place end() const { return {}; }
    bool empty() const { return begin() == end(); }
    const Key& At(Place place) const { return classes_[place.size_class][place.index]; }
    Place After(Place place) const {
      const bool is_last = place.index + 1 == classes_[place.size_class].size();
      return is_last ? FirstFrom(place.size_class + 1) : Place{place.size_class, place.index + 1};
    }
    const Key& largest() const;              // REQUIRES: not empty
    Place LowerBound(const Key& key) const;  // the first that is not before `key`
    void Insert(const Key& key);
    void Erase(const Key& key) { Erase(LowerBound(key)); }  // REQUIRES: it is there
    void Erase(Place place);

   private:
    // Four between two powers of 2, from 512 bytes on.
    static constexpr size_t kClasses = 256;
    static size_t ClassOf(int64_t bytes) {
      const auto units = static_cast<uint64_t>(bytes) >> 9;
      if (units < 4) return units;
      const auto power = static_cast<size_t>(std::bit_width(units)) - 1;
      return 4 * (power - 1) + ((units >> (power - 2)) & 3);
    }

    // The first of that class or a later one.
    Place FirstFrom(size_t size_class) const;

    std::array<std::vector<Key>, kClasses> classes_;
    std::array<uint64_t, kClasses / 64> is_used_ = {};  // a bit for each class: it has some
  };

  Blocks cached;    // with memory
  Blocks unmapped;  // without, in order of address: the size in their key is 0
};

class BlockList {
 public:
  Block& At(BlockId id) { return blocks_[Index(id)]; }
  const Block& At(BlockId id) const { return blocks_[Index(id)]; }

  // Those that end a segment, in no order.
  std::vector<BlockId> LastOfSegments() const;

  Pool& PoolFor(bool is_small, StreamId stream);
  StreamId streams() const { return static_cast<StreamId>(pools_.size()); }  // that have pools

  // How many searches for a free block of a pool's size there have been, on all streams.
  int64_t& Searches(bool is_small) { return is_small ? small_searches_ : large_searches_; }

  // A new block, in no pool.
  BlockId Add(const Block& block);

  // Forgets a block that is in no pool and has no neighbours.
  void Drop(BlockId id) { unused_.push_back(id); }

  // Puts a block into its pool, and takes it out.
  void MakeFree(BlockId id);
  void Take(BlockId id);
  BlockId TakeAt(Pool::Blocks& blocks, Pool::Blocks::Place at);  // where it was found

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
  struct Pools {
    Pool small;
    Pool large;
  };
  std::vector<Pools> pools_;  // by stream
  int64_t small_searches_ = 0;
  int64_t large_searches_ = 0;
};

}  // namespace onnxfit
