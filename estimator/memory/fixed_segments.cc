#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/memory/segments.h"

namespace onnxfit {
namespace {

constexpr int64_t kMinLargeBytes = 10 * kMiB;   // kMinLargeAlloc: from this, its own segment
constexpr int64_t kRoundLargeBytes = 2 * kMiB;  // kRoundLarge

// One cudaMalloc a segment; a segment goes back when it is one free block.
class FixedSegments : public Segments {
 public:
  FixedSegments(BlockList& blocks, SegmentSource& source, const AllocatorConf& conf)
      : blocks_(blocks), source_(source), conf_(conf) {}

  BlockId New(int64_t block_bytes, StreamId stream) override {
    const int64_t bytes = SegmentBytes(block_bytes, conf_);
    if (!source_.Take(segments_, 0, bytes)) return kNoBlock;
    reserved_bytes_ = CheckedAdd(reserved_bytes_, bytes);
    return blocks_.Add({.segment = segments_++,
                        .bytes = bytes,
                        .is_small = IsSmall(block_bytes),
                        .stream = stream});
  }

  void ReleaseCached() override {
    for (const bool is_small : {false, true}) {
      for (const BlockId id : WholeSegments(is_small)) Release(id);
    }
  }

  bool ReleaseOversize(int64_t block_bytes, StreamId stream) override {
    if (conf_.max_split_bytes == AllocatorConf::kUnlimited) return false;
    const Pool::Blocks& cached = blocks_.PoolFor(IsSmall(block_bytes), stream).cached;
    const int64_t wanted = std::max(block_bytes, conf_.max_split_bytes);
    const Pool::Blocks::Place one = cached.LowerBound({.bytes = wanted});
    if (one != cached.end()) return Release(cached.At(one).id) > 0;
    int64_t released = 0;
    while (released < wanted && !cached.empty()) {
      const BlockId largest = cached.largest().id;
      if (blocks_.At(largest).bytes < conf_.max_split_bytes) break;
      released += Release(largest);
    }
    return released >= wanted;
  }

  // Those of the large pool go that are as old as the average or older, then again those
  // of the rest, until enough has gone.  A segment's age is how many searches it has seen.
  void CollectGarbage(int64_t kept_bytes) override {
    if (reserved_bytes_ <= kept_bytes) return;  // no need to look
    std::vector<BlockId> segments = WholeSegments(false);
    while (reserved_bytes_ > kept_bytes && !segments.empty()) {
      const double average = AverageAge(segments);
      std::vector<BlockId> younger;
      for (const BlockId id : segments) {
        if (static_cast<double>(AgeOf(id)) < average) {
          younger.push_back(id);
        } else {
          Release(id);
        }
      }
      segments = std::move(younger);
    }
  }

  int64_t reserved_bytes() const override { return reserved_bytes_; }

 private:
  // The segments of a pool's size that are one free block, by stream, in order of size.
  std::vector<BlockId> WholeSegments(bool is_small) {
    std::vector<BlockId> whole;
    for (StreamId stream = 0; stream < blocks_.streams(); ++stream) {
      const Pool::Blocks& cached = blocks_.PoolFor(is_small, stream).cached;
      for (auto at = cached.begin(); at != cached.end(); at = cached.After(at)) {
        const BlockId id = cached.At(at).id;
        const Block& block = blocks_.At(id);
        if (block.previous == kNoBlock && block.next == kNoBlock) whole.push_back(id);
      }
    }
    return whole;
  }

  int64_t AgeOf(BlockId id) { return blocks_.Searches(false) - blocks_.At(id).freed_at; }

  double AverageAge(const std::vector<BlockId>& segments) {
    int64_t total = 0;
    for (const BlockId id : segments) total += AgeOf(id);
    return static_cast<double>(total) / static_cast<double>(segments.size());
  }

  // Gives a segment back that is one free block.  Returns its bytes.
  int64_t Release(BlockId id) {
    const Block block = blocks_.At(id);
    blocks_.Take(id);
    blocks_.Drop(id);
    source_.GiveBack(block.segment, 0, block.bytes);
    reserved_bytes_ -= block.bytes;
    return block.bytes;
  }

  BlockList& blocks_;
  SegmentSource& source_;
  const AllocatorConf& conf_;
  int32_t segments_ = 0;
  int64_t reserved_bytes_ = 0;
};

}  // namespace

int64_t SegmentBytes(int64_t block_bytes, const AllocatorConf& conf) {
  if (IsSmall(block_bytes)) return kSmallSegmentBytes;
  if (block_bytes < kMinLargeBytes) return conf.large_segment_bytes;
  return RoundUp(block_bytes, kRoundLargeBytes);
}

std::unique_ptr<Segments> NewFixedSegments(BlockList& blocks, SegmentSource& source,
                                           const AllocatorConf& conf) {
  return std::make_unique<FixedSegments>(blocks, source, conf);
}

}  // namespace onnxfit
