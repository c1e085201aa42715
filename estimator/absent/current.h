// The card that this thread of the program works on, and handles that only have to differ.
#pragma once

#include <string_view>

#include "estimator/absent/contexts.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {

// A stream, an event, a module …: an address of its own, until it is freed.
void* NewHandle();

// Whether it is one that lives; to free another is false.
bool IsHandle(void* handle);
bool FreeHandle(void* handle);

inline Status Fresh(void** handle) {
  *handle = NewHandle();
  return kSuccess;
}

// What a whole process has one of: a context, the default pool.
void* OneHandle();

// `name` of the library that the program would have, found where it is loaded: for what needs no
// card, such as versions and texts.  Null where there is none.
void* RealFunction(const char* name);

// This library's own function of that name; null where it has none.
void* OwnFunction(const char* name);

// Whether a library is NVIDIA's, by its path.
bool IsNvidias(std::string_view path);

}  // namespace onnxfit::absent
