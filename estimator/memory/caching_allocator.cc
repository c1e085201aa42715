// PyTorch's CUDACachingAllocator: reference tree v2.6.0, c10/cuda/CUDACachingAllocator.cpp
// (function names below); the same rules and constants up to 2.11.
#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/memory/allocator.h"
#include "estimator/memory/block_list.h"
#include "estimator/memory/segments.h"

namespace onnxfit {
namespace {

constexpr int64_t kMinBlockBytes = 512;  // kMinBlockSize

// The steps between two powers of 2 that a request of `bytes` is rounded up to.
int64_t DivisionsFor(int64_t bytes, const AllocatorConf& conf) {
  const auto size_class = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(bytes / kMiB)));
  const size_t index = size_class == 0 ? 0 : size_class - 1;
  return conf.roundup_divisions[std::min(index, conf.roundup_divisions.size() - 1)];
}

// round_size: what a request occupies at least.
int64_t BlockBytes(int64_t bytes, const AllocatorConf& conf) {
  if (bytes < kMinBlockBytes) return kMinBlockBytes;
  const int64_t divisions = DivisionsFor(bytes, conf);
  const bool in_steps = divisions > 1 && bytes / kMinBlockBytes >= divisions;
  if (!in_steps) return RoundUp(bytes, kMinBlockBytes);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return RoundUp(bytes, power / divisions);
}

class CachingAllocator : public Allocator {
 public:
  CachingAllocator(SegmentSource& source, const AllocatorConf& conf)
      : conf_(conf),
        limit_bytes_(LimitOf(conf, source)),
        segments_(conf.expandable_segments ? NewExpandableSegments(blocks_, source, conf_)
                                           : NewFixedSegments(blocks_, source, conf_)) {}

  bool AllocOn(StreamId stream, BufferId buffer, int64_t bytes) override {
    Owned& owned = OwnedOf(buffer);
    assert(!owned.live);
    owned = {.block = kNoBlock, .requested_bytes = bytes, .live = true};
    if (bytes == 0) return true;
    const int64_t block_bytes = BlockBytes(bytes, conf_);
    owned.block = TakeFree(block_bytes, stream);
    if (owned.block == kNoBlock) owned.block = TakeNew(block_bytes, stream);
    owned.live = owned.block != kNoBlock;
    if (!owned.live) return false;
    Split(owned.block, block_bytes);
    stats_.requested_bytes = CheckedAdd(stats_.requested_bytes, bytes);
    stats_.allocated_bytes = CheckedAdd(stats_.allocated_bytes, blocks_.At(owned.block).bytes);
    return true;
  }

  void Free(BufferId buffer) override {
    Owned& owned = OwnedOf(buffer);
    assert(owned.live);
    owned.live = false;
    if (owned.block == kNoBlock) return;
    stats_.requested_bytes -= owned.requested_bytes;
    stats_.allocated_bytes -= blocks_.At(owned.block).bytes;
    blocks_.MakeFree(blocks_.Merge(owned.block));
  }

  AllocatorStats stats() const override { return stats_; }

  void EmptyCache() override {
    segments_->ReleaseCached();
    stats_.reserved_bytes = segments_->reserved_bytes();
  }

  std::optional<Layout::Place> PlaceOf(BufferId buffer) const override {
    const Owned& owned = owned_[Index(buffer)];
    assert(owned.live);
    if (owned.block == kNoBlock) return std::nullopt;
    const Block& block = blocks_.At(owned.block);
    return Layout::Place{block.segment, block.offset, block.bytes};
  }

  // Of pages, it would have to say which have memory; of garbage, how old it is.
  std::optional<Layout> layout() const override {
    if (conf_.expandable_segments || CollectsGarbage()) return std::nullopt;
    Layout layout;
    const std::vector<int32_t> numbers = ListSegments(layout);
    layout.places.resize(owned_.size());
    for (size_t i = 0; i < owned_.size(); ++i) {
      if (!owned_[i].live || owned_[i].block == kNoBlock) continue;
      const Block& block = blocks_.At(owned_[i].block);
      const auto at = std::lower_bound(numbers.begin(), numbers.end(), block.segment);
      layout.places[i] = {static_cast<int32_t>(at - numbers.begin()), block.offset, block.bytes};
    }
    return layout;
  }

 private:
  struct Owned {
    BlockId block = kNoBlock;
    int64_t requested_bytes = 0;
    bool live = false;
  };

  // Their sizes and streams into `layout`; returns their numbers, both in order of age.
  std::vector<int32_t> ListSegments(Layout& layout) const {
    std::vector<BlockId> last = blocks_.LastOfSegments();
    std::ranges::sort(last, std::less(), [&](BlockId id) { return blocks_.At(id).segment; });
    std::vector<int32_t> numbers;
    for (const BlockId id : last) {
      const Block& block = blocks_.At(id);
      numbers.push_back(block.segment);
      layout.segments.push_back(block.offset + block.bytes);
      layout.streams.push_back(block.stream);
    }
    return numbers;
  }

  // setMemoryFraction: what may be reserved.
  static int64_t LimitOf(const AllocatorConf& conf, const SegmentSource& source) {
    if (conf.memory_fraction >= 1) return AllocatorConf::kUnlimited;
    return ShareOf(conf.memory_fraction, source.total_bytes());
  }

  // As PyTorch computes it, in doubles.
  static int64_t ShareOf(double share, int64_t bytes) {
    return static_cast<int64_t>(share * static_cast<double>(bytes));
  }

  Owned& OwnedOf(BufferId buffer) {
    const auto index = static_cast<size_t>(buffer);
    if (index >= owned_.size()) owned_.resize(index + 1);
    return owned_[index];
  }

  // get_free_block: the best fit among free blocks, taken out of its pool.
  BlockId TakeFree(int64_t block_bytes, StreamId stream) {
    Pool& pool = blocks_.PoolFor(IsSmall(block_bytes), stream);
    ++blocks_.Searches(IsSmall(block_bytes));
    Pool::Blocks::Place found = pool.cached.LowerBound({.bytes = block_bytes});
    if (found == pool.cached.end()) return kNoBlock;
    if (conf_.expandable_segments) found = LeastExpandable(pool, found);
    if (IsRefused(block_bytes, blocks_.At(pool.cached.At(found).id).bytes)) return kNoBlock;
    return blocks_.TakeAt(pool.cached, found);
  }

  // A block that can grow counts as large as it can become, so that holes are filled first.
  Pool::Blocks::Place LeastExpandable(Pool& pool, Pool::Blocks::Place found) {
    const auto expanded = [&](Pool::Blocks::Place at) {
      return ExpandedBytes(pool.cached.At(at).id);
    };
    for (auto next = pool.cached.After(found); next != pool.cached.end();
         next = pool.cached.After(next)) {
      if (expanded(next) >= expanded(found)) break;
      found = next;
    }
    return found;
  }

  int64_t ExpandedBytes(BlockId id) {
    const Block& block = blocks_.At(id);
    const bool grows = block.next != kNoBlock && !blocks_.At(block.next).is_mapped;
    return block.bytes + (grows ? blocks_.At(block.next).bytes : 0);
  }

  // Blocks that are never split are for requests of about their size.
  bool IsRefused(int64_t block_bytes, int64_t found_bytes) const {
    if (found_bytes < conf_.max_split_bytes) return false;
    return block_bytes < conf_.max_split_bytes ||
           found_bytes - block_bytes >= conf_.max_non_split_rounding_bytes;
  }

  // malloc, where no free block fits: new memory, with the ways to make room for it.
  // kNoBlock: full.
  BlockId TakeNew(int64_t block_bytes, StreamId stream) {
    if (CollectsGarbage()) {
      segments_->CollectGarbage(ShareOf(conf_.garbage_collection_threshold, limit_bytes_));
    }
    BlockId id = New(block_bytes, stream);
    if (id == kNoBlock && segments_->ReleaseOversize(block_bytes, stream)) {
      id = New(block_bytes, stream);
    }
    if (id == kNoBlock) {
      ++stats_.retries;
      segments_->ReleaseCached();
      id = New(block_bytes, stream);
    }
    stats_.reserved_bytes = segments_->reserved_bytes();
    return id;
  }

  bool CollectsGarbage() const {
    return conf_.garbage_collection_threshold > 0 && conf_.memory_fraction < 1;
  }

  // alloc_block: the limit counts a whole segment, also where only pages of one are taken.
  BlockId New(int64_t block_bytes, StreamId stream) {
    const int64_t left_bytes = limit_bytes_ - segments_->reserved_bytes();
    if (SegmentBytes(block_bytes, conf_) > left_bytes) return kNoBlock;
    return segments_->New(block_bytes, stream);
  }

  // should_split, alloc_found_block: gives the tail back, unless it is too small to be of
  // use; a large block then keeps up to 1 MiB more than was asked for.
  void Split(BlockId id, int64_t block_bytes) {
    const Block& block = blocks_.At(id);
    const int64_t tail_bytes = block.bytes - block_bytes;
    const bool worth_it = block.is_small || conf_.expandable_segments
                              ? tail_bytes >= kMinBlockBytes
                              : block_bytes < conf_.max_split_bytes && tail_bytes > kSmallBytes;
    if (worth_it) blocks_.MakeFree(blocks_.SplitTail(id, block_bytes));
  }

  const AllocatorConf conf_;
  const int64_t limit_bytes_;
  BlockList blocks_;
  std::unique_ptr<Segments> segments_;
  std::vector<Owned> owned_;  // by BufferId
  AllocatorStats stats_;
};

}  // namespace

std::unique_ptr<Allocator> NewCachingAllocator(SegmentSource& source, const AllocatorConf& conf) {
  return std::make_unique<CachingAllocator>(source, conf);
}

bool IsOfSmallPool(int64_t bytes, const AllocatorConf& conf) {
  return IsSmall(BlockBytes(bytes, conf));
}

int64_t TriedBytes(int64_t requested_bytes, const AllocatorConf& conf) {
  return SegmentBytes(BlockBytes(requested_bytes, conf), conf);
}

}  // namespace onnxfit
