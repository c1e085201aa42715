#include "estimator/absent/current.h"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <unordered_set>

#include "estimator/absent/kept_libc.h"
#include "estimator/absent/own_runtimes.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {

Status& LastStatus() {
  static thread_local Status status = kSuccess;
  return status;
}

namespace {

struct Handles {
  std::mutex mutex;
  std::unordered_set<void*> living;
};

Handles& AllHandles() {
  static auto* const handles = new Handles;  // outlives destructors
  return *handles;
}

}  // namespace

// Not empty, since programs may look into what a handle points to.
void* NewHandle() {
  void* const handle = std::calloc(1, 512);
  const std::lock_guard lock(AllHandles().mutex);
  AllHandles().living.insert(handle);
  return handle;
}

bool IsHandle(void* handle) {
  const std::lock_guard lock(AllHandles().mutex);
  return AllHandles().living.count(handle) > 0;
}

bool FreeHandle(void* handle) {
  const std::lock_guard lock(AllHandles().mutex);
  if (AllHandles().living.erase(handle) == 0) return false;
  std::free(handle);
  return true;
}

void* OneHandle() {
  static void* const handle = NewHandle();
  return handle;
}

void* OwnFunction(const char* name) {
  static void* const self = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&OwnFunction), &info) == 0
               ? nullptr
               : RealOf<void*(const char*, int)>("dlopen")(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return self == nullptr ? nullptr : dlsym(self, name);
}

bool IsNvidias(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.starts_with("libcute_")) return false;  // what it compiles asks its own runtime
  return name.starts_with("libcu") || name.starts_with("libnv") || name.starts_with("libnccl");
}

namespace {
// Frameworks bring functions of the same names that lead to whatever dlopen() gave them: to us
// (TensorFlow 2.21).
bool IsOfNvidias(const void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 && IsNvidias(info.dli_fname);
}
}  // namespace

void* RealFunction(const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  if (next != nullptr && IsOfNvidias(next)) return next;
  for (const char* file :
       {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcublas.so.13",
        "libcublas.so.12", "libcublasLt.so.13", "libcublasLt.so.12", "libcudnn.so.9",
        "libcudnn.so.8", "libcufft.so.12", "libcufft.so.11", "libcusolver.so.12",
        "libcusolver.so.11", "libcusparse.so.12", "libnccl.so.2"}) {
    void* const library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    if (found != nullptr) return found;
  }
  return OwnRuntimeFunction(name);
}

}  // namespace onnxfit::absent
