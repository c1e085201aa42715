// Kernels: how they are registered, what the runtime says of them, and their launches.
#include "estimator/absent/kernels.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "estimator/absent/contents.h"
#include "estimator/absent/current.h"
#include "estimator/absent/images.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// dim3 by value: two registers.
struct Grid {
  unsigned x, y, z;
};

constexpr size_t kMostArguments = 64;
constexpr uint64_t kWordBytes = 8;
constexpr uint64_t kMostWords =
    64;  // of one argument: a list of tensors is 4 KiB, its pointers first
constexpr uint64_t kMostWordsElsewhere = 8;  // of one that does not lie beside others on a stack
constexpr uint64_t kStack = 256 << 10;       // what compilers write has arguments on the stack
constexpr uint64_t kMemoryPage = 4096;

// Reads what the process has there, as far as it is mapped: 0 where nothing is.
size_t ReadOwn(uint64_t from, void* to, size_t bytes) {
  const uint64_t in_first = std::min<uint64_t>(bytes, kMemoryPage - from % kMemoryPage);
  const iovec here = {to, bytes};
  const iovec there[] = {{reinterpret_cast<void*>(from), in_first},
                         {reinterpret_cast<void*>(from + in_first), bytes - in_first}};
  const ssize_t read = process_vm_readv(getpid(), &here, 1, there, 2, 0);
  return read < 0 ? 0 : static_cast<size_t>(read);
}

void LookInto(uint64_t from, uint64_t until) {
  uint64_t words[kMostWords];
  const uint64_t aligned = (from + kWordBytes - 1) / kWordBytes * kWordBytes;
  if (until <= aligned) return;
  const size_t asked = std::min<uint64_t>(until - aligned, sizeof words);
  const size_t read = ReadOwn(aligned, words, asked);
  for (size_t i = 0; i < read / kWordBytes; ++i) {
    if (IsDevice(reinterpret_cast<const void*>(words[i]))) ForgetAround(words[i]);
  }
}

// Where a launch's arguments lie.  How many there are nobody says.  On a stack they are what lies
// there; of those that a program collects elsewhere, as ctypes does, all that point to memory: one
// too many makes a value unknown, one too few would leave it as it was.
std::vector<uint64_t> PlacesOf(const void* arguments, uint64_t here) {
  uint64_t words[kMostArguments];
  const size_t count =
      ReadOwn(reinterpret_cast<uint64_t>(arguments), words, sizeof words) / kWordBytes;
  const auto is_on_stack = [&](uint64_t place) { return place >= here && place <= here + kStack; };
  const bool is_elsewhere = count > 0 && !is_on_stack(words[0]);
  std::vector<uint64_t> places;
  for (size_t i = 0; i < count; ++i) {
    char byte = 0;
    const bool is_place = is_elsewhere ? ReadOwn(words[i], &byte, 1) == 1 : is_on_stack(words[i]);
    if (!is_place) break;
    places.push_back(words[i]);
  }
  std::sort(places.begin(), places.end());
  return places;
}

// CU_LAUNCH_PARAM_* of cuda.h: pairs of what follows and where it is, up to 0.
constexpr uint64_t kBuffer = 1;
constexpr uint64_t kBufferBytes = 2;

// The other way to hand over arguments: one buffer, of a size that is told.
void NotePacked(void* const* extra) {
  uint64_t words[6] = {};
  ReadOwn(reinterpret_cast<uint64_t>(extra), words, sizeof words);
  uint64_t buffer = 0;
  size_t bytes = 0;
  for (size_t i = 0; i < 4 && words[i] != 0; i += 2) {
    if (words[i] == kBuffer) buffer = words[i + 1];
    if (words[i] == kBufferBytes) ReadOwn(words[i + 1], &bytes, sizeof bytes);
  }
  for (uint64_t at = 0; at < std::min<size_t>(bytes, kMemoryPage); at += kMostWords * kWordBytes)
    LookInto(buffer + at,
             std::min<uint64_t>(buffer + bytes, buffer + at + kMostWords * kWordBytes));
}

}  // namespace

void NoteLaunch(void** arguments, void** extra) {
  if (IsNothingKept()) return;
  if (extra != nullptr) NotePacked(extra);
  if (arguments == nullptr) return;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  const std::vector<uint64_t> places = PlacesOf(arguments, here);
  for (size_t i = 0; i < places.size(); ++i) {
    const bool is_beside = places[i] >= here && places[i] <= here + kStack;
    const uint64_t most = places[i] + (is_beside ? kMostWords : kMostWordsElsewhere) * kWordBytes;
    LookInto(places[i], i + 1 < places.size() ? std::min(places[i + 1], most) : most);
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
                                 unsigned, void*, void** arguments, void** extra) {
  NoteLaunch(arguments, extra);
  return kSuccess;
}
ABSENT_API Status cuLaunchKernelEx(const void*, void*, void** arguments, void** extra) {
  NoteLaunch(arguments, extra);
  return kSuccess;
}
ABSENT_API Status cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, unsigned, void*, void** arguments) {
  NoteLaunch(arguments);
  return kSuccess;
}

// The handle of a file's kernels is what names their images.
ABSENT_API void** __cudaRegisterFatBinary(void* wrapper) { return static_cast<void**>(wrapper); }
ABSENT_API void __cudaRegisterFunction(void** wrapper, const char* function, char*, const char*,
                                       int, void*, void*, void*, void*, int*) {
  RegisterKernel(wrapper, function);
}

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

// Of a kernel that has no image for the card, or was registered in no way that we know, it is told
// as if it had one of the card's own.
ABSENT_API Status cudaFuncGetAttributes(FunctionAttributes* attributes, const void* function) {
  const Status status = EnterContext();
  if (status != kSuccess) return Said(status);
  const int capability = CurrentCard().capability;
  const Image image = ImageOf(function, capability).value_or(Image{.capability = capability});
  const int binary = image.is_ptx ? capability : image.capability;
  *attributes = {0, 0, 0, kThreadsPerBlock, 32, image.capability, binary, 0, kSharedBytes};
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
