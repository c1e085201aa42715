// The card that this thread of the program works on, and handles that only have to differ.
#pragma once

#include "estimator/absent/card.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {

int& CurrentDevice();

inline const AbsentCard& CurrentCard() {
  return Machine().cards[static_cast<size_t>(CurrentDevice())];
}

// A stream, an event, a module …: an address of its own, never given back.
void* NewHandle();
inline Status Fresh(void** handle) {
  *handle = NewHandle();
  return kSuccess;
}

// What a whole process has one of: a context, the default pool.
void* OneHandle();

// `name` of the library that the program would have, found where it is loaded: for what needs no
// card, such as versions and texts.  Null where there is none.
void* RealFunction(const char* name);

}  // namespace onnxfit::absent
