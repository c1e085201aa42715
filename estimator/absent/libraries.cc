// cuBLAS, cuBLASLt and the versions of all libraries: what the table of functions cannot say.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "estimator/absent/current.h"
#include "estimator/absent/status.h"

extern "C" int cudaRuntimeGetVersion(int* version);  // runtime_device.cc

namespace onnxfit::absent {
namespace {

// Asks the library that is loaded, which needs no card for it.
template <class Function, class... Arguments>
auto Real(Function* /*type*/, const char* name, Arguments... arguments)
    -> decltype(static_cast<Function*>(nullptr)(arguments...)) {
  auto* const real = reinterpret_cast<Function*>(RealFunction(name));
  return real == nullptr ? decltype(real(arguments...)){} : real(arguments...);
}

}  // namespace

// A version by its parts (library_types.h): major, minor, patch.
#define ABSENT_PROPERTY(name) \
  ABSENT_API Status name(int part, int* value) { return Real(&name, #name, part, value); }
ABSENT_PROPERTY(cublasGetProperty)
ABSENT_PROPERTY(cublasLtGetProperty)
ABSENT_PROPERTY(cudnnGetProperty)
ABSENT_PROPERTY(cufftGetProperty)
ABSENT_PROPERTY(curandGetProperty)
ABSENT_PROPERTY(cusolverGetProperty)
ABSENT_PROPERTY(cusparseGetProperty)
#undef ABSENT_PROPERTY

#define ABSENT_NUMBER(name) \
  ABSENT_API size_t name() { return Real(&name, #name); }
ABSENT_NUMBER(cublasLtGetVersion)
ABSENT_NUMBER(cublasLtGetCudartVersion)
ABSENT_NUMBER(cudnnGetVersion)
ABSENT_NUMBER(cudnnGetCudartVersion)
#undef ABSENT_NUMBER

#define ABSENT_VERSION(name) \
  ABSENT_API Status name(int* version) { return Real(&name, #name, version); }
ABSENT_VERSION(cufftGetVersion)
ABSENT_VERSION(curandGetVersion)
ABSENT_VERSION(cusolverGetVersion)
ABSENT_VERSION(ncclGetVersion)
#undef ABSENT_VERSION

#define ABSENT_TEXT(name) \
  ABSENT_API const char* name(Status status) { return Real(&name, #name, status); }
ABSENT_TEXT(cublasGetStatusName)
ABSENT_TEXT(cublasGetStatusString)
ABSENT_TEXT(cublasLtGetStatusName)
ABSENT_TEXT(cublasLtGetStatusString)
ABSENT_TEXT(cudnnGetErrorString)
ABSENT_TEXT(cusparseGetErrorName)
ABSENT_TEXT(cusparseGetErrorString)
ABSENT_TEXT(ncclGetErrorString)
#undef ABSENT_TEXT

// The handle's version, which is the library's: 130100 of 13.1.0.
ABSENT_API Status cublasGetVersion_v2(void*, int* version) {
  int parts[3] = {};
  for (int part = 0; part < 3; ++part) cublasGetProperty(part, &parts[part]);
  *version = parts[0] * 10000 + parts[1] * 100 + parts[2];
  return kSuccess;
}
ABSENT_API Status cusparseGetVersion(void*, int* version) {
  int parts[3] = {};
  for (int part = 0; part < 3; ++part) cusparseGetProperty(part, &parts[part]);
  *version = parts[0] * 1000 + parts[1] * 100 + parts[2];
  return kSuccess;
}

namespace {
// The runtime's version, and CUPTI_API_VERSION of its release (cupti_version.h of 13.5.25): the
// newest first.  From 13 on it is made of the release, 130500 of 13.5.
struct CuptiRow {
  int runtime = 0;
  unsigned version = 0;
};
constexpr CuptiRow kCupti[] = {{12090, 27}, {12080, 26}, {12060, 24}, {12050, 23}, {12040, 22},
                               {12030, 21}, {12020, 20}, {12000, 19}, {11080, 18}, {0, 17}};
}  // namespace

// CUPTI itself asks the driver before it answers.
ABSENT_API Status cuptiGetVersion(unsigned* version) {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  const auto* const row = std::find_if(std::begin(kCupti), std::end(kCupti),
                                       [&](const CuptiRow& at) { return runtime >= at.runtime; });
  *version = runtime >= 13000 ? static_cast<unsigned>(runtime) * 10 : row->version;
  return kSuccess;
}

// One algorithm for every product, which needs no scratch: PyTorch asks for the scratch itself
// before it asks for an algorithm.
ABSENT_API Status cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*,
                                                 int most, void* results, int* count) {
  constexpr size_t kResultBytes = 96;  // cublasLtMatmulHeuristicResult_t (cublasLt.h, CUDA 13.0)
  if (most > 0) std::memset(results, 0, kResultBytes);
  *count = most > 0 ? 1 : 0;
  return kSuccess;
}

}  // namespace onnxfit::absent
