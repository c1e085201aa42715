#include <algorithm>
#include <vector>

#include "estimator/memory/segments.h"

namespace onnxfit {
namespace {

// Addresses for 1 1/8 of the card (class ExpandableSegment), as far as 63 bits go.
int64_t AddressBytes(int64_t total_bytes, int64_t page_bytes) {
  const int64_t bytes = std::min(total_bytes, int64_t{1} << 62);
  return RoundUp(bytes + bytes / 8, page_bytes);
}

// A segment is addresses, of which pages get memory where it is needed and give it back
// where they are free.  There is one for each pool of each stream, and a further one only where the
// addresses of the first do not suffice.
class ExpandableSegments : public Segments {
 public:
  ExpandableSegments(BlockList& blocks, SegmentSource& source, const AllocatorConf& conf)
      : blocks_(blocks), source_(source), conf_(conf) {}

  // try_allocate_expandable_block: fills the place that was found from its front, page by
  // page.  What got memory keeps it, also where the card is full before the end.
  BlockId New(int64_t bytes, StreamId stream) override {
    BlockId id = FindRoom(bytes, stream);
    if (!At(id).is_mapped) id = Map(id, bytes);
    while (id != kNoBlock && At(id).bytes < bytes) {
      const BlockId next = At(id).next;
      if (next == kNoBlock) return kNoBlock;  // more than a segment has addresses for
      id = Map(next, bytes - At(id).bytes);
    }
    if (id != kNoBlock) blocks_.Take(id);
    return id;
  }

  void ReleaseCached() override {
    for (StreamId stream = 0; stream < blocks_.streams(); ++stream) {
      for (const bool is_small : {false, true}) ReleaseCached(is_small, stream);
    }
  }

  int64_t reserved_bytes() const override { return reserved_bytes_; }

 private:
  Block& At(BlockId id) { return blocks_.At(id); }

  void ReleaseCached(bool is_small, StreamId stream) {
    std::vector<BlockId> cached;  // unmapping changes the pool
    const Pool::Blocks& blocks = blocks_.PoolFor(is_small, stream).cached;
    for (auto at = blocks.begin(); at != blocks.end(); at = blocks.After(at)) {
      cached.push_back(blocks.At(at).id);
    }
    for (const BlockId id : cached) Unmap(id);
  }

  int64_t PageBytes(bool is_small) const {
    return is_small ? kSmallSegmentBytes : conf_.large_segment_bytes;
  }

  // find_expandable_block: the lowest address from which free blocks, with memory and
  // without, hold `bytes`.
  BlockId FindRoom(int64_t bytes, StreamId stream) {
    const bool is_small = IsSmall(bytes);
    const Pool::Blocks& unmapped = blocks_.PoolFor(is_small, stream).unmapped;
    for (auto at = unmapped.begin(); at != unmapped.end(); at = unmapped.After(at)) {
      BlockId id = unmapped.At(at).id;
      const BlockId previous = At(id).previous;
      if (previous != kNoBlock && At(previous).is_free) id = previous;
      if (HasRoom(id, bytes)) return id;
    }
    const BlockId id =
        blocks_.Add({.segment = segments_++,
                     .bytes = AddressBytes(source_.total_bytes(), PageBytes(is_small)),
                     .is_small = is_small,
                     .stream = stream,
                     .is_mapped = false});
    blocks_.MakeFree(id);
    return id;
  }

  bool HasRoom(BlockId id, int64_t bytes) {
    int64_t room = 0;
    for (; room < bytes && id != kNoBlock && At(id).is_free; id = At(id).next) {
      room += At(id).bytes;
    }
    return room >= bytes;
  }

  // map_block: gives memory to the first `bytes` of a block that has none, or to all of
  // it, in whole pages.  Returns the free block that they are in, kNoBlock where the card
  // is full.
  BlockId Map(BlockId id, int64_t bytes) {
    const Block block = At(id);
    const int64_t mapped = RoundUp(std::min(bytes, block.bytes), PageBytes(block.is_small));
    if (!source_.Take(block.segment, block.offset, mapped)) return kNoBlock;
    reserved_bytes_ = CheckedAdd(reserved_bytes_, mapped);
    blocks_.Take(id);
    if (mapped < block.bytes) blocks_.MakeFree(blocks_.SplitTail(id, mapped));
    At(id).is_mapped = true;
    id = blocks_.Merge(id);
    blocks_.MakeFree(id);
    return id;
  }

  // unmap_block: gives back the pages that lie in a free block as a whole.
  void Unmap(BlockId id) {
    const Block block = At(id);
    const int64_t page_bytes = PageBytes(block.is_small);
    const int64_t begin = RoundUp(block.offset, page_bytes);
    const int64_t end = (block.offset + block.bytes) / page_bytes * page_bytes;
    if (begin >= end) return;
    blocks_.Take(id);
    if (begin > block.offset) {
      const BlockId front = id;
      id = blocks_.SplitTail(front, begin - block.offset);
      blocks_.MakeFree(front);
    }
    if (At(id).bytes > end - begin) blocks_.MakeFree(blocks_.SplitTail(id, end - begin));
    source_.GiveBack(block.segment, begin, end - begin);
    reserved_bytes_ -= end - begin;
    At(id).is_mapped = false;
    Keep(blocks_.Merge(id));
  }

  // Addresses stay for later, but for a segment that has no memory at all.
  void Keep(BlockId id) {
    const bool is_whole = At(id).previous == kNoBlock && At(id).next == kNoBlock;
    if (is_whole) {
      blocks_.Drop(id);
    } else {
      blocks_.MakeFree(id);
    }
  }

  BlockList& blocks_;
  SegmentSource& source_;
  const AllocatorConf& conf_;
  int32_t segments_ = 0;
  int64_t reserved_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Segments> NewExpandableSegments(BlockList& blocks, SegmentSource& source,
                                                const AllocatorConf& conf) {
  return std::make_unique<ExpandableSegments>(blocks, source, conf);
}

}  // namespace onnxfit
