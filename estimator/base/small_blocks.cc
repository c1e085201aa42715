#include "estimator/base/small_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

namespace onnxfit::small_blocks {
namespace {

constexpr size_t kGrowthBytes = size_t{1} << 21;  // made writable at once

// What all threads share.
struct SlabSource {
  std::mutex mutex;
  char* fresh = nullptr;  // the next slab
  char* end = nullptr;    // of what is writable
  bool has_failed = false;
  std::array<FreeBlock*, kClasses> left = {};  // by threads that have ended
};

constinit SlabSource source = {};

// Sets the addresses apart.
bool Reserve() {
  void* range = mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return false;
  source.fresh = source.end = static_cast<char*>(range);
  begin = reinterpret_cast<uintptr_t>(range);
  return true;
}

bool Grow() {
  if (source.end == nullptr && !Reserve()) return false;
  const bool is_full = OffsetOf(source.end) >= kAddressBytes;
  if (is_full || mprotect(source.end, kGrowthBytes, PROT_READ | PROT_WRITE) != 0) return false;
  source.end += kGrowthBytes;
  return true;
}

// What a thread has left goes to the others.
struct ThreadEnd {
  ~ThreadEnd() {
    const std::lock_guard lock(source.mutex);
    for (size_t i = 0; i < kClasses; ++i) {
      while (lists[i].free != nullptr) {
        FreeBlock* block = std::exchange(lists[i].free, lists[i].free->next);
        block->next = std::exchange(source.left[i], block);
      }
    }
  }
};

void HandBackAtEnd() {
  static thread_local const ThreadEnd at_end;
  static_cast<void>(at_end);
}

// Gives `list` blocks, where there are any.
bool Refill(BlockList& list, size_t size_class) {
  HandBackAtEnd();
  const std::lock_guard lock(source.mutex);
  list.free = std::exchange(source.left[size_class], nullptr);
  if (list.free != nullptr) return true;
  if (source.has_failed) return false;
  source.has_failed = source.fresh == source.end && !Grow();
  if (source.has_failed) return false;
  class_of_slab[OffsetOf(source.fresh) / kSlabBytes] = static_cast<uint8_t>(size_class);
  list.fresh = std::exchange(source.fresh, source.fresh + kSlabBytes);
  list.end = list.fresh + kSlabBytes;
  return true;
}

}  // namespace

// From what is left of the list's slab, or from another.
void* TakeFresh(size_t size_class) noexcept {
  size_class = std::max<size_t>(size_class, 1);  // no block is of 0 bytes
  BlockList& list = lists[size_class];
  const size_t bytes = size_class * kUnit;
  while (static_cast<size_t>(list.end - list.fresh) < bytes) {
    if (!Refill(list, size_class)) return nullptr;
    if (list.free != nullptr) return std::exchange(list.free, list.free->next);
  }
  return std::exchange(list.fresh, list.fresh + bytes);
}

}  // namespace onnxfit::small_blocks
