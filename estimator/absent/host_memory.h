// Memory of the host that CUDA hands out: real, and taken as it is touched.
#pragma once

#include <cstddef>

namespace onnxfit::absent {

// Null where the host has none left.
void* AllocatePinned(size_t bytes);
void FreePinned(void* pointer);
bool IsPinned(const void* pointer);

// Moves to and from the card as it is used; counted on no card.
void* AllocateManaged(size_t bytes);
bool FreeManaged(void* pointer);  // false where it is not
bool IsManaged(const void* pointer);

}  // namespace onnxfit::absent
