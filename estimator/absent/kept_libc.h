// How a function of libc's is taken the place of: under its own name for whoever calls it, and with
// the real one at hand.
#pragma once

#include <dlfcn.h>

namespace onnxfit::absent {

// What the program would have had.
template <class Function>
Function* RealOf(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Headers declare the same names, some with other types or as other symbols, so ours are called
// otherwise and named by their symbol.  shown_names.map has to show it, too.
#define KEPT_LIBC(type, name, parameters)             \
  extern "C" __attribute__((visibility("default")))   \
  type onnxfit_kept_##name parameters __asm__(#name); \
  type onnxfit_kept_##name parameters

}  // namespace onnxfit::absent
