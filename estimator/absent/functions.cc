// Every function of NVIDIA's libraries that has no code of its own: it does nothing and says that
// it worked, sets what it would write to the host, and is named where nobody knows it.  The rows
// are made by tools/cuda_functions.py; tools/cuda_prototypes.py says what their texts mean.
#include <cstdint>
#include <cstdlib>
#include <cstring>

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

// What each library calls "not supported".
struct LibraryRow {
  const char* library;
  int not_supported;
};

constexpr LibraryRow kLibraries[] = {
    {"cudart", kNotSupported}, {"cuda", kNotSupported}, {"nvml", 3},   {"cublas", 15},
    {"cublaslt", 15},          {"cudnn", 3000},         {"cufft", 16}, {"curand", 106},
    {"cusolver", 9},           {"cusparse", 10},        {"nccl", 5},   {"cusparselt", 10},
    {"cufile", 5001},          {"cupti", 27},
};

int NotSupportedBy(const char* library) {
  for (const LibraryRow& row : kLibraries) {
    if (std::strcmp(row.library, library) == 0) return row.not_supported;
  }
  return kNotSupported;
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
    return static_cast<uint64_t>(NotSupportedBy(row.library));
  }
  WriteAll(row, registers, stack);
  if (std::strncmp(row.writes, "rm", 2) == 0) return registers[0];  // a structure, by its place
  if (std::strncmp(row.writes, "rt", 2) == 0) return reinterpret_cast<uint64_t>("");
  if (std::strncmp(row.writes, "rp", 2) == 0) return reinterpret_cast<uint64_t>(NewHandle());
  return std::strcmp(row.library, "nvml") == 0 ? static_cast<uint64_t>(NotSupportedBy("nvml")) : 0;
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
