// Kernels: how they are registered, what the runtime says of them, and their launches.
#include "estimator/absent/kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "estimator/absent/contents.h"
#include "estimator/absent/current.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// dim3 by value: two registers.
struct Grid {
  unsigned x, y, z;
};

constexpr int kMostArguments = 64;
constexpr uint64_t kMostWords =
    64;  // of one argument: a list of tensors is 4 KiB, its pointers first
constexpr uint64_t kStack = 256 << 10;  // arguments lie on the launching thread's stack

void LookInto(uint64_t from, uint64_t until) {
  for (uint64_t at = (from + 7) / 8 * 8; at + 8 <= until; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
    if (IsDevice(reinterpret_cast<const void*>(word))) ForgetAround(word);
  }
}

}  // namespace

void NoteLaunch(void** arguments) {
  if (arguments == nullptr || IsNothingKept()) return;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  uint64_t places[kMostArguments];
  int count = 0;
  while (count < kMostArguments) {
    const auto place = reinterpret_cast<uint64_t>(arguments[count]);
    if (place < here || place > here + kStack) break;
    places[count++] = place;
  }
  std::sort(places, places + count);
  for (int i = 0; i < count; ++i) {
    const uint64_t most = places[i] + kMostWords * 8;
    LookInto(places[i], i + 1 < count ? std::min(places[i + 1], most) : most);
  }
}

namespace {
Status Launch(void** arguments) {
  const Status status = EnterContext();
  if (status == kSuccess) NoteLaunch(arguments);
  return Said(status);
}
}  // namespace

ABSENT_API Status cudaLaunchKernel(const void*, Grid, Grid, void** arguments, size_t, void*) {
  return Launch(arguments);
}
ABSENT_API Status __cudaLaunchKernel(const void*, Grid, Grid, void** arguments, size_t, void*) {
  return Launch(arguments);
}
ABSENT_API Status cudaLaunchCooperativeKernel(const void*, Grid, Grid, void** arguments, size_t,
                                              void*) {
  return Launch(arguments);
}
ABSENT_API Status cudaLaunchKernelExC(const void*, const void*, void** arguments) {
  return Launch(arguments);
}
ABSENT_API Status cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, void*, void** arguments, void**) {
  NoteLaunch(arguments);
  return kSuccess;
}
ABSENT_API Status cuLaunchKernelEx(const void*, void*, void** arguments, void**) {
  NoteLaunch(arguments);
  return kSuccess;
}
ABSENT_API Status cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, unsigned, void*, void** arguments) {
  NoteLaunch(arguments);
  return kSuccess;
}

ABSENT_API void** __cudaRegisterFatBinary(void*) { return static_cast<void**>(OneHandle()); }

namespace {
struct CallConfiguration {
  Grid grid, block;
  size_t shared_bytes;
  void* stream;
};
thread_local CallConfiguration configuration = {};
}  // namespace

// What a launch with <<<…>>> keeps for the stub that compilers write.
ABSENT_API unsigned __cudaPushCallConfiguration(Grid grid, Grid block, size_t shared_bytes,
                                                void* stream) {
  configuration = {grid, block, shared_bytes, stream};
  return 0;
}
ABSENT_API Status __cudaPopCallConfiguration(Grid* grid, Grid* block, size_t* shared_bytes,
                                             void** stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *stream = configuration.stream;
  return kSuccess;
}

namespace {
// The members that every version begins with (driver_types.h).
struct FunctionAttributes {
  size_t shared_bytes, constant_bytes, local_bytes;
  int most_threads, registers, ptx, binary, cache_mode, most_dynamic_shared_bytes;
};
}  // namespace

ABSENT_API Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void*) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  const int capability = CurrentCard().capability;
  *attributes = {0, 0, 0, kThreadsPerBlock, 32, capability, capability, 0, kSharedBytes};
  return kSuccess;
}

ABSENT_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*,
                                                                int threads, size_t) {
  *blocks = BlocksOf(CurrentCard(), threads);
  return kSuccess;
}
ABSENT_API Status cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                         int threads, size_t,
                                                                         unsigned) {
  *blocks = BlocksOf(CurrentCard(), threads);
  return kSuccess;
}
ABSENT_API Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads,
                                                              size_t) {
  *blocks = BlocksOf(CurrentCard(), threads);
  return kSuccess;
}
ABSENT_API Status cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void*,
                                                                       int threads, size_t,
                                                                       unsigned) {
  *blocks = BlocksOf(CurrentCard(), threads);
  return kSuccess;
}
ABSENT_API Status cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void*, void*, size_t,
                                                   int) {
  *block = 256;
  *grid = CurrentCard().multiprocessors * BlocksOf(CurrentCard(), *block);
  return kSuccess;
}

}  // namespace onnxfit::absent
