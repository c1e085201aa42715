// The CUDA driver: modules with kernels that were compiled, as Triton and NVRTC load them.
#include "estimator/absent/current.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// CUfunction_attribute (cuda.h).
int FunctionAttribute(int attribute) {
  switch (attribute) {
    case 0:
      return kThreadsPerBlock;
    case 4:
      return 32;  // registers
    case 5:
    case 6:
      return CurrentCard().capability;
    default:
      return 0;
  }
}

}  // namespace

ABSENT_API Status cuModuleLoad(void** module, const char*) { return Fresh(module); }
ABSENT_API Status cuModuleLoadData(void** module, const void*) { return Fresh(module); }
ABSENT_API Status cuModuleLoadDataEx(void** module, const void*, unsigned, void*, void**) {
  return Fresh(module);
}
ABSENT_API Status cuModuleLoadFatBinary(void** module, const void*) { return Fresh(module); }
ABSENT_API Status cuModuleGetFunction(void** function, void*, const char*) {
  return Fresh(function);
}
ABSENT_API Status cuModuleGetFunctionCount(unsigned* count, void*) {
  *count = 1;
  return kSuccess;
}

// A variable of a module.
ABSENT_API Status cuModuleGetGlobal_v2(void** pointer, size_t* bytes, void*, const char*) {
  constexpr size_t kBytes = 256;
  if (bytes != nullptr) *bytes = kBytes;
  return pointer == nullptr ? kSuccess : Allocate(CurrentDevice(), kBytes, pointer);
}

ABSENT_API Status cuLibraryLoadData(void** library, const void*, void*, void**, unsigned, void*,
                                    void**, unsigned) {
  return Fresh(library);
}
ABSENT_API Status cuLibraryGetKernel(void** kernel, void*, const char*) { return Fresh(kernel); }
ABSENT_API Status cuLibraryGetModule(void** module, void*) { return Fresh(module); }
ABSENT_API Status cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return kSuccess;
}

ABSENT_API Status cuFuncGetAttribute(int* value, int attribute, void*) {
  *value = FunctionAttribute(attribute);
  return kSuccess;
}
ABSENT_API Status cuKernelGetAttribute(int* value, int attribute, void*, int) {
  *value = FunctionAttribute(attribute);
  return kSuccess;
}
ABSENT_API Status cuOccupancyMaxActiveClusters(int* clusters, void*, const void*) {
  *clusters = 1;
  return kSuccess;
}

}  // namespace onnxfit::absent
