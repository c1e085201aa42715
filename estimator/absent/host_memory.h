// Memory of the host that CUDA hands out: real, and taken as it is touched.
#pragma once

#include <cstddef>

namespace onnxfit::absent {

// Whole pages, which count as pinned whether they are touched or not (counts.h).  Null where the
// host has none left.
void* AllocatePinned(size_t bytes);
bool FreePinned(void* pointer);  // false where it is not
bool IsPinned(const void* pointer);

// The program's own, pinned in its place.  False where some of it is already, or where it is not.
bool RegisterPinned(void* pointer, size_t bytes);
bool UnregisterPinned(void* pointer);

// Moves to and from the card as it is used, and leaves it where another request needs the room: so
// it is counted apart (counts.h), on no card.
void* AllocateManaged(size_t bytes);
bool FreeManaged(void* pointer);  // false where it is not
bool IsManaged(const void* pointer);

}  // namespace onnxfit::absent
