#include "estimator/memory/block_list.h"

#include <algorithm>

namespace onnxfit {
namespace {

Pool::Key KeyOf(const Block& block, BlockId id) {
  return {.bytes = block.is_mapped ? block.bytes : 0,
          .segment = block.segment,
          .id = id,
          .offset = block.offset};
}

}  // namespace

Pool::Blocks::Place Pool::Blocks::FirstFrom(size_t size_class) const {
  constexpr size_t kBits = 64;
  for (size_t word = size_class / kBits; word < is_used_.size(); ++word) {
    const bool is_first = word == size_class / kBits;
    const uint64_t bits = is_first ? is_used_[word] >> (size_class % kBits) : is_used_[word];
    if (bits == 0) continue;
    const size_t begin = is_first ? size_class : word * kBits;
    return {begin + static_cast<size_t>(std::countr_zero(bits)), 0};
  }
  return end();
}

const Pool::Key& Pool::Blocks::largest() const {
  size_t size_class = kClasses - 1;
  while (classes_[size_class].empty()) --size_class;
  return classes_[size_class].back();
}

Pool::Blocks::Place Pool::Blocks::LowerBound(const Key& key) const {
  const size_t size_class = ClassOf(key.bytes);
  const std::vector<Key>& keys = classes_[size_class];
  const auto at = std::lower_bound(keys.begin(), keys.end(), key);
  if (at == keys.end()) return FirstFrom(size_class + 1);
  return {size_class, static_cast<size_t>(at - keys.begin())};
}

void Pool::Blocks::Insert(const Key& key) {
  const size_t size_class = ClassOf(key.bytes);
  std::vector<Key>& keys = classes_[size_class];
  keys.insert(std::lower_bound(keys.begin(), keys.end(), key), key);
  is_used_[size_class / 64] |= uint64_t{1} << (size_class % 64);
}

void Pool::Blocks::Erase(Place place) {
  std::vector<Key>& keys = classes_[place.size_class];
  keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(place.index));
  if (keys.empty()) is_used_[place.size_class / 64] &= ~(uint64_t{1} << (place.size_class % 64));
}

Pool& BlockList::PoolFor(bool is_small, StreamId stream) {
  if (Index(stream) >= pools_.size()) pools_.resize(Index(stream) + 1);
  Pools& pools = pools_[Index(stream)];
  return is_small ? pools.small : pools.large;
}

std::vector<BlockId> BlockList::LastOfSegments() const {
  std::vector<bool> is_unused(blocks_.size());
  for (const BlockId id : unused_) is_unused[Index(id)] = true;
  std::vector<BlockId> last;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!is_unused[i] && blocks_[i].next == kNoBlock) last.push_back(static_cast<BlockId>(i));
  }
  return last;
}

BlockId BlockList::Add(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = unused_.back();
  unused_.pop_back();
  At(id) = block;
  return id;
}

void BlockList::MakeFree(BlockId id) {
  Block& block = At(id);
  block.is_free = true;
  block.freed_at = Searches(block.is_small);
  SetOf(block).Insert(KeyOf(block, id));
}

void BlockList::Take(BlockId id) {
  Block& block = At(id);
  SetOf(block).Erase(KeyOf(block, id));
  block.is_free = false;
}

BlockId BlockList::TakeAt(Pool::Blocks& blocks, Pool::Blocks::Place at) {
  const BlockId id = blocks.At(at).id;
  blocks.Erase(at);
  At(id).is_free = false;
  return id;
}

BlockId BlockList::SplitTail(BlockId id, int64_t bytes) {
  Block tail = At(id);
  tail.offset += bytes;
  tail.bytes -= bytes;
  tail.previous = id;
  const BlockId tail_id = Add(tail);
  if (tail.next != kNoBlock) At(tail.next).previous = tail_id;
  At(id).next = tail_id;
  At(id).bytes = bytes;
  return tail_id;
}

BlockId BlockList::Merge(BlockId id) {
  const BlockId previous = At(id).previous;
  if (CanJoin(id, previous)) {
    Take(previous);
    Absorb(previous, id);
    id = previous;
  }
  const BlockId next = At(id).next;
  if (CanJoin(id, next)) {
    Take(next);
    Absorb(id, next);
  }
  return id;
}

bool BlockList::CanJoin(BlockId id, BlockId neighbour) {
  return neighbour != kNoBlock && At(neighbour).is_free &&
         At(neighbour).is_mapped == At(id).is_mapped;
}

// `front` grows by its neighbour `back`, both of them in no pool.
void BlockList::Absorb(BlockId front, BlockId back) {
  At(front).bytes += At(back).bytes;
  At(front).next = At(back).next;
  if (At(front).next != kNoBlock) At(At(front).next).previous = front;
  unused_.push_back(back);
}

Pool::Blocks& BlockList::SetOf(const Block& block) {
  Pool& pool = PoolFor(block.is_small, block.stream);
  return block.is_mapped ? pool.cached : pool.unmapped;
}

}  // namespace onnxfit
