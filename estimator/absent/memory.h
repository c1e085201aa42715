// Memory of the cards: addresses that nothing lies behind, and how many bytes each takes.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/absent/pages.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {

struct DeviceBlock {
  uint64_t address = 0;
  int64_t bytes = 0;     // as they were asked for
  int device = 0;        // the program's number of it
  Pool* pool = nullptr;  // that it is taken from
};

// 2 (out of memory) where the card is full.  Small requests share a page, of the card or the pool.
Status Allocate(int device, uint64_t bytes, void** pointer, Pool* pool = nullptr);

// False where no block begins there.
bool Free(void* pointer);

// As its last context goes.
void FreeAllOf(int device);

// The block that an address lies in.
std::optional<DeviceBlock> BlockOf(const void* pointer);

}  // namespace onnxfit::absent
