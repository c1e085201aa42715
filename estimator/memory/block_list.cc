#include "estimator/memory/block_list.h"

namespace onnxfit {
namespace {

Pool::Key KeyOf(const Block& block, BlockId id) {
  return {.bytes = block.is_mapped ? block.bytes : 0,
          .segment = block.segment,
          .id = id,
          .offset = block.offset};
}

}  // namespace

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
  block.freed_at = PoolFor(block.is_small).searches;
  SetOf(block).insert(KeyOf(block, id));
}

void BlockList::Take(BlockId id) {
  Block& block = At(id);
  SetOf(block).erase(KeyOf(block, id));
  block.is_free = false;
}

BlockId BlockList::TakeAt(Pool::Blocks& blocks, Pool::Blocks::iterator at) {
  const BlockId id = at->id;
  blocks.erase(at);
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
  Pool& pool = PoolFor(block.is_small);
  return block.is_mapped ? pool.cached : pool.unmapped;
}

}  // namespace onnxfit
