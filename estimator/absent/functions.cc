// Every function of NVIDIA's libraries that has no code of its own: it does nothing and says that
// it worked, sets what it would write to the host, and is named where nobody knows it.  The rows
// are made by tools/cuda_functions.py; tools/cuda_prototypes.py says what their texts mean.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

struct FunctionRow {
  const char* library;
  const char* name;
  const char* writes;  // "1h 3z4"; "?" where nobody knows it
};

// What each library calls "not supported", and what it says where its handle finds no room on the
// card: 0 of those that have none, and of the driver, which makes no context by itself.
struct LibraryRow {
  const char* library;
  int not_supported;
  int no_room;
};

constexpr LibraryRow kLibraries[] = {
    {"cudart", kNotSupported, kOutOfMemory},
    {"cuda", kNotSupported, 0},
    {"nvml", 3, 0},
    {"cublas", 15, 3},
    {"cublaslt", 15, 3},
    {"cudnn", 3000, 1001},
    {"cufft", 16, 2},
    {"curand", 106, 102},
    {"cusolver", 9, 2},
    {"cusparse", 10, 2},
    {"nccl", 5, 0},
    {"cusparselt", 10, 2},
    {"cufile", 5001, 0},
    {"cupti", 27, 0},
};

const LibraryRow& LibraryOf(const FunctionRow& row) {
  const auto* const found = std::find_if(
      std::begin(kLibraries), std::end(kLibraries),
      [&](const LibraryRow& library) { return std::strcmp(library.library, row.library) == 0; });
  return found == std::end(kLibraries) ? kLibraries[0] : *found;
}

bool BeginsWith(const char* name, const char* begin) {
  return std::strncmp(name, begin, std::strlen(begin)) == 0;
}

bool EndsWith(const char* name, const char* end) {
  const size_t length = std::strlen(name);
  const size_t tail = std::strlen(end);
  return length >= tail && std::strcmp(name + length - tail, end) == 0;
}

// How functions of the runtime begin that make no context: those from which no call leads to where
// the runtime makes one, in libcudart_static.a 13.0.96.
constexpr const char* kWithoutContext[] = {
    "__cuda",
    "cudaArrayGet",
    "cudaChooseDevice",
    "cudaCreateChannelDesc",
    "cudaCtxResetPersisting",
    "cudaDevResource",
    "cudaDevSmResource",
    "cudaDeviceGetDevResource",
    "cudaDeviceGetGraphMem",
    "cudaDeviceGetHostAtomic",
    "cudaDeviceGetP2P",
    "cudaDeviceGetTexture1D",
    "cudaDeviceGraphMemTrim",
    "cudaDeviceRegisterAsync",
    "cudaDeviceSetGraphMem",
    "cudaDeviceUnregisterAsync",
    "cudaEventCreateFromEGL",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaFuncGetName",
    "cudaFuncGetParamCount",
    "cudaGLGetDevices",
    "cudaGetDeviceFlags",
    "cudaGetExportTable",
    "cudaGetKernel",
    "cudaGraphConditionalHandle",
    "cudaGraphNodeGetEnabled",
    "cudaGraphNodeSetEnabled",
    "cudaGraphReleaseUserObject",
    "cudaGraphRetainUserObject",
    "cudaGraphicsResourceGetMappedPointer",
    "cudaKernelSetAttribute",
    "cudaLibrary",
    "cudaMemGet",
    "cudaMemPool",
    "cudaMemRangeGet",
    "cudaMemSetMemPool",
    "cudaMipmappedArrayGet",
    "cudaSetValidDevices",
    "cudaUserObject",
    "cudaVDPAU",
};

// Libraries make one with their handle, plan or generator.
constexpr const char* kHandleEndings[] = {"Create", "Create_v2", "CreateGenerator"};

bool MakesContext(const FunctionRow& row) {
  if (LibraryOf(row).no_room == 0) return false;
  if (std::strcmp(row.library, "cudart") == 0) {
    return std::none_of(std::begin(kWithoutContext), std::end(kWithoutContext),
                        [&](const char* begin) { return BeginsWith(row.name, begin); });
  }
  return BeginsWith(row.name, "cufftPlan") || BeginsWith(row.name, "cufftMakePlan") ||
         std::any_of(std::begin(kHandleEndings), std::end(kHandleEndings),
                     [&](const char* end) { return EndsWith(row.name, end); });
}

// A function that ends what its first argument is.
bool Ends(const FunctionRow& row) {
  return std::strstr(row.name, "Destroy") != nullptr || std::strstr(row.name, "Unload") != nullptr;
}

// What CUDA was seen to refuse when it has ended already; other libraries do not look.
constexpr const char* kLooksAtHandle[] = {"cudaStreamDestroy", "cudaEventDestroy",
                                          "cuStreamDestroy_v2", "cuEventDestroy_v2"};

int End(const FunctionRow& row, void* handle) {
  if (FreeHandle(handle)) return kSuccess;
  const bool looks =
      std::any_of(std::begin(kLooksAtHandle), std::end(kLooksAtHandle),
                  [&](const char* name) { return std::strcmp(row.name, name) == 0; });
  return looks ? Said(kInvalidHandle) : kSuccess;
}

// An argument of a call, counted from 1: six in registers, then eight bytes each on the stack.
uint64_t Argument(const uint64_t* registers, const uint64_t* stack, long number) {
  constexpr long kInRegisters = 6;
  return number <= kInRegisters ? registers[number - 1] : stack[number - kInRegisters - 1];
}

void Write(void* to, char kind, size_t bytes) {
  if (to == nullptr || IsDevice(to)) return;
  if (kind == 'h') {
    void* const handle = NewHandle();
    std::memcpy(to, &handle, sizeof handle);
  } else {
    std::memset(to, 0, bytes);
  }
}

// One "3z4" after the other.
void WriteAll(const FunctionRow& row, const uint64_t* registers, const uint64_t* stack) {
  for (const char* at = row.writes; *at != '\0';) {
    char* end = nullptr;
    const long number = std::strtol(at, &end, 10);
    if (end == at) {  // a blank, or what it returns
      ++at;
      continue;
    }
    const char kind = *end++;
    const auto bytes = static_cast<size_t>(std::strtol(end, &end, 10));
    Write(reinterpret_cast<void*>(Argument(registers, stack, number)), kind, bytes);
    if (kind == 's') WriteUnknownSize(row.name);
    at = end;
  }
}

// Of the libraries that need no card the program has the real ones: compilers and linkers.
#define ABSENT_FUNCTION(library, name, writes) ABSENT_OF_##library(library, name, writes)
#define ABSENT_OF_nvrtc(library, name, writes)
#define ABSENT_OF_nvjitlink(library, name, writes)
#define ABSENT_OF_nvfatbin(library, name, writes)
#define ABSENT_OF_cudart ABSENT_ROW
#define ABSENT_OF_cuda ABSENT_ROW
#define ABSENT_OF_nvml ABSENT_ROW
#define ABSENT_OF_cublas ABSENT_ROW
#define ABSENT_OF_cublaslt ABSENT_ROW
#define ABSENT_OF_cudnn ABSENT_ROW
#define ABSENT_OF_cufft ABSENT_ROW
#define ABSENT_OF_curand ABSENT_ROW
#define ABSENT_OF_cusolver ABSENT_ROW
#define ABSENT_OF_cusparse ABSENT_ROW
#define ABSENT_OF_cusparselt ABSENT_ROW
#define ABSENT_OF_nccl ABSENT_ROW
#define ABSENT_OF_cufile ABSENT_ROW
#define ABSENT_OF_cupti ABSENT_ROW

constexpr FunctionRow kFunctions[] = {
#define ABSENT_ROW(library, name, writes) {#library, #name, writes},
#include "estimator/absent/functions.inc"
#undef ABSENT_ROW
};

}  // namespace

// What the trampoline below calls; what it returns the program gets.
extern "C" __attribute__((visibility("hidden"))) uint64_t onnxfit_absent_answer(
    uint64_t place, const uint64_t* registers, const uint64_t* stack) {
  const FunctionRow& row = kFunctions[place];
  if (std::strcmp(row.writes, "?") == 0) {
    WriteUnknown(row.name);
    return static_cast<uint64_t>(LibraryOf(row).not_supported);
  }
  if (!HasContext(CurrentDevice()) && MakesContext(row) && EnterContext() != kSuccess)
    return static_cast<uint64_t>(LibraryOf(row).no_room);
  if (Ends(row)) return static_cast<uint64_t>(End(row, reinterpret_cast<void*>(registers[0])));
  WriteAll(row, registers, stack);
  if (BeginsWith(row.name, "cufftPlan")) WriteUnknownSize(row.name);  // takes its scratch itself
  if (std::strncmp(row.writes, "rm", 2) == 0) return registers[0];    // a structure, by its place
  if (std::strncmp(row.writes, "rt", 2) == 0) return reinterpret_cast<uint64_t>("");
  if (std::strncmp(row.writes, "rp", 2) == 0) return reinterpret_cast<uint64_t>(NewHandle());
  const LibraryRow& library = LibraryOf(row);
  return std::strcmp(library.library, "nvml") == 0 ? static_cast<uint64_t>(library.not_supported)
                                                   : 0;
}

}  // namespace onnxfit::absent

// A weak symbol for each row, which the code of its own takes the place of: its number into a
// register, then to where the six registers of arguments are stored beside the stack's.
asm(R"(
  .text
  .type onnxfit_absent_trampoline, @function
onnxfit_absent_trampoline:
  push %rbp
  mov %rsp, %rbp
  push %r9
  push %r8
  push %rcx
  push %rdx
  push %rsi
  push %rdi
  mov %rax, %rdi
  mov %rsp, %rsi
  lea 16(%rbp), %rdx
  call onnxfit_absent_answer
  leave
  ret
  .set absent_row, 0
)");

#define ABSENT_ROW(library, name, writes)  \
  asm(".weak " #name                       \
      "\n"                                 \
      ".type " #name ", @function\n" #name \
      ":\n"                                \
      "  mov $absent_row, %eax\n"          \
      "  jmp onnxfit_absent_trampoline\n"  \
      "  .set absent_row, absent_row + 1\n");
#include "estimator/absent/functions.inc"
#undef ABSENT_ROW
