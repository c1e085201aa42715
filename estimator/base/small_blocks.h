// Memory for the many small values that a process makes and drops: graphs, calls, names,
// dimensions.
//
// A block is a multiple of 16 bytes, cut from slabs of one size each and kept in a list of its size
// once it is given back, so that both take a dozen instructions where malloc takes a hundred.  All
// slabs lie in one range of addresses, by which a block is known.  What was had once stays with the
// process.  Each thread has its own lists; what a thread leaves when it ends, others take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace onnxfit {

// What TakeSmallBlock and GiveSmallBlock share with small_blocks.cc; they are here to be inlined.
namespace small_blocks {

inline constexpr size_t kUnit = 16;  // bytes; a block's size in units is its class
inline constexpr size_t kClasses = 33;
inline constexpr size_t kSlabBytes = size_t{1} << 15;
inline constexpr size_t kAddressBytes = size_t{1} << 34;  // set apart, which takes no memory

struct FreeBlock {
  FreeBlock* next;
};

// One size of one thread: blocks that were given back, then what is left of its slab.
struct BlockList {
  FreeBlock* free;
  char* fresh;
  char* end;
};

inline constinit thread_local std::array<BlockList, kClasses> lists = {};
inline constinit uintptr_t begin = UINTPTR_MAX / 2 + 1;  // no address, until there are slabs
inline constinit std::array<uint8_t, kAddressBytes / kSlabBytes> class_of_slab = {};

inline size_t OffsetOf(const void* block) { return reinterpret_cast<uintptr_t>(block) - begin; }

void* TakeFresh(size_t size_class) noexcept;

}  // namespace small_blocks

inline constexpr size_t kLargestSmallBlock =
    (small_blocks::kClasses - 1) * small_blocks::kUnit;  // bytes

// A block of at least `bytes`, aligned to 16 bytes.  Null where the process may have no more
// addresses or memory: ask malloc.  REQUIRES: bytes <= kLargestSmallBlock.
inline void* TakeSmallBlock(size_t bytes) noexcept {
  const size_t size_class = (bytes + small_blocks::kUnit - 1) / small_blocks::kUnit;
  small_blocks::BlockList& list = small_blocks::lists[size_class];
  if (list.free != nullptr) return std::exchange(list.free, list.free->next);
  return small_blocks::TakeFresh(size_class);
}

// Whether TakeSmallBlock made it.
inline bool IsSmallBlock(const void* block) noexcept {
  return small_blocks::OffsetOf(block) < small_blocks::kAddressBytes;
}

// Takes a block back, from any thread.  REQUIRES: IsSmallBlock(block).
inline void GiveSmallBlock(void* block) noexcept {
  const size_t slab = small_blocks::OffsetOf(block) / small_blocks::kSlabBytes;
  small_blocks::BlockList& list = small_blocks::lists[small_blocks::class_of_slab[slab]];
  auto* given = static_cast<small_blocks::FreeBlock*>(block);
  given->next = std::exchange(list.free, given);
}

}  // namespace onnxfit
