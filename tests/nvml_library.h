// The tests' own management library, opened: counting_nvml.h.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <memory>

#include "tests/counting_nvml.h"

namespace onnxfit {

// The library `path`, and what it is to say: nothing of the test before.
class NvmlLibrary {
 public:
  explicit NvmlLibrary(const char* path) : handle_(dlopen(path, RTLD_NOW), dlclose) {
    REQUIRE_MESSAGE(handle_ != nullptr, dlerror());
    const auto get = reinterpret_cast<NvmlScene* (*)()>(dlsym(handle_.get(), "TheNvmlScene"));
    REQUIRE(static_cast<bool>(get));
    scene_ = get();
    *scene_ = {};
  }

  NvmlScene* operator->() const { return scene_; }

 private:
  std::unique_ptr<void, int (*)(void*)> handle_;
  NvmlScene* scene_ = nullptr;
};

}  // namespace onnxfit
