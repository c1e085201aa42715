// What the command makes with `new`: small values from small_blocks.h, others from malloc.  Not in
// builds with sanitizers, which have their own.
#include <cstdlib>
#include <new>

#include "estimator/base/small_blocks.h"

namespace {

void* Allocate(size_t bytes) {
  if (bytes <= onnxfit::kLargestSmallBlock) {
    if (void* block = onnxfit::TakeSmallBlock(bytes)) return block;
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void Free(void* memory) {
  if (onnxfit::IsSmallBlock(memory)) {
    onnxfit::GiveSmallBlock(memory);
  } else {
    std::free(memory);
  }
}

}  // namespace

// The other forms, of arrays and without exceptions, call these.
void* operator new(size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { Free(memory); }
