// Functions of the driver by name, as the runtime and frameworks ask for them.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// Versions of functions that came when the name was taken: asked by its name, the driver gives the
// newest that the asker's CUDA knows.  Those whose later arguments CUDA 12 does not pass stay out.
constexpr const char* kPlain[] = {"cuCtxGetDevice", "cuEventElapsedTime", "cuDeviceGetUuid"};

// Functions whose arguments are others from a version of CUDA on (cudaTypedefs.h, CUDA 13.0): the
// newest first.
struct VersionRow {
  const char* name;
  int since;
  const char* symbol;
};
constexpr VersionRow kVersions[] = {
    {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
    {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
    {"cuCtxCreate", 0, "cuCtxCreate_v2"},
    {"cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"},
    {"cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"},
    {"cuGraphGetEdges", 0, "cuGraphGetEdges"},
    {"cuGraphNodeGetDependencies", 12030, "cuGraphNodeGetDependencies_v2"},
    {"cuGraphNodeGetDependencies", 0, "cuGraphNodeGetDependencies"},
    {"cuGraphNodeGetDependentNodes", 12030, "cuGraphNodeGetDependentNodes_v2"},
    {"cuGraphNodeGetDependentNodes", 0, "cuGraphNodeGetDependentNodes"},
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
    {"cuStreamGetCaptureInfo", 0, "cuStreamGetCaptureInfo"},
};

void* Find(const std::string& name, int version) {
  const auto* const row = std::find_if(
      std::begin(kVersions), std::end(kVersions),
      [&](const VersionRow& known) { return name == known.name && version >= known.since; });
  if (row != std::end(kVersions)) return OwnFunction(row->symbol);
  const bool is_plain = std::any_of(std::begin(kPlain), std::end(kPlain),
                                    [&](const char* plain) { return name == plain; });
  for (const char* ending : {"_v2", ""}) {
    if (is_plain && *ending != '\0') continue;
    if (void* const found = OwnFunction((name + ending).c_str())) return found;
  }
  return nullptr;
}

// cudaDriverEntryPointQueryResult and CUdriverProcAddressQueryResult.
constexpr int kFound = 0;
constexpr int kNoSuchSymbol = 1;

Status Answer(const char* name, void** function, int version, int* result) {
  *function = Find(name, version);
  if (*function == nullptr && *name != '\0') WriteMissing(name);
  if (result != nullptr) *result = *function != nullptr ? kFound : kNoSuchSymbol;
  return *function != nullptr ? kSuccess : kNotFound;
}

}  // namespace

ABSENT_API Status cuGetProcAddress(const char* name, void** function, int version,
                                   unsigned long long) {
  return Answer(name, function, version, nullptr);
}
ABSENT_API Status cuGetProcAddress_v2(const char* name, void** function, int version,
                                      unsigned long long, int* result) {
  return Answer(name, function, version, result);
}

ABSENT_API Status cudaRuntimeGetVersion(int* version);

// The runtime tells by the result, and is content.
ABSENT_API Status cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long,
                                          int* result) {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  Answer(name, function, version, result);
  return kSuccess;
}
ABSENT_API Status cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                   unsigned version, unsigned long long,
                                                   int* result) {
  Answer(name, function, static_cast<int>(version), result);
  return kSuccess;
}

}  // namespace onnxfit::absent
