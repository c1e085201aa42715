// Functions of the driver by name, as the runtime and frameworks ask for them.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// Versions of functions that came when the name was taken: asked by its name, the driver gives the
// newest that the asker's CUDA knows.  Those whose later arguments CUDA 12 does not pass stay out.
constexpr const char* kPlain[] = {"cuCtxGetDevice", "cuEventElapsedTime", "cuDeviceGetUuid"};

void* Find(const std::string& name) {
  static void* const self = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&WriteUnknown), &info) == 0
               ? nullptr
               : dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  const bool is_plain = std::any_of(std::begin(kPlain), std::end(kPlain),
                                    [&](const char* plain) { return name == plain; });
  for (const char* ending : {"_v2", ""}) {
    if (is_plain && *ending != '\0') continue;
    if (void* const found = dlsym(self, (name + ending).c_str())) return found;
  }
  return nullptr;
}

// cudaDriverEntryPointQueryResult and CUdriverProcAddressQueryResult.
constexpr int kFound = 0;
constexpr int kNoSuchSymbol = 1;

Status Answer(const char* name, void** function, int* result) {
  *function = Find(name);
  if (*function == nullptr && *name != '\0') WriteMissing(name);
  if (result != nullptr) *result = *function != nullptr ? kFound : kNoSuchSymbol;
  return *function != nullptr ? kSuccess : kNotFound;
}

}  // namespace

ABSENT_API Status cuGetProcAddress(const char* name, void** function, int, unsigned long long) {
  return Answer(name, function, nullptr);
}
ABSENT_API Status cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long,
                                      int* result) {
  return Answer(name, function, result);
}

// The runtime tells by the result, and is content.
ABSENT_API Status cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                          int* result) {
  Answer(name, function, result);
  return kSuccess;
}
ABSENT_API Status cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                   unsigned long long, int* result) {
  Answer(name, function, result);
  return kSuccess;
}

}  // namespace onnxfit::absent
