// NCCL: collectives that move nothing between processes.  Each rank finds its own values in the
// place of the others'.
#include <cstring>

#include "estimator/absent/contents.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/status.h"
#include "estimator/base/nccl.h"

namespace onnxfit::absent {
namespace {

struct Communicator {
  int ranks;
  int rank;
  void* buffers;  // on the card; none of a rank that is alone
};

constexpr Status kCudaError = 1;  // ncclUnhandledCudaError

// ncclUniqueId by value lies on the stack.
struct UniqueId {
  char bytes[128];
};

// By ncclDataType_t (nccl.h 2.28): int8, uint8, int32, uint32, int64, uint64, fp16, fp32, fp64,
// bf16, fp8 twice.
constexpr size_t kTypeBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

size_t BytesOf(size_t count, int type) {
  return type >= 0 && static_cast<size_t>(type) < sizeof kTypeBytes / sizeof *kTypeBytes
             ? count * kTypeBytes[type]
             : count;
}

// Nobody here knows how many channels NCCL would find: it takes the least, and the command leaves
// room for what it takes behind a switch.
Status New(void** communicator, int ranks, int rank) {
  void* buffers = nullptr;
  if (ranks > 1) {
    if (Allocate(CurrentDevice(), NcclLeastBytes(), &buffers) != kSuccess) return kCudaError;
    WriteEvent({"communicator", CurrentCard().place, 0, NcclLeastBytes()});
  }
  *communicator = new Communicator{ranks, rank, buffers};
  return kSuccess;
}

Status End(Communicator* communicator) {
  if (communicator != nullptr && communicator->buffers != nullptr) Free(communicator->buffers);
  delete communicator;
  return kSuccess;
}

Status Move(const void* from, void* to, size_t bytes) {
  if (from != to && from != nullptr && to != nullptr) CopyBytes(to, from, bytes);
  return kSuccess;
}

}  // namespace

ABSENT_API Status ncclGetUniqueId(UniqueId* id) {
  std::memset(id, 1, sizeof *id);
  return kSuccess;
}
ABSENT_API Status ncclCommInitRank(void** communicator, int ranks, UniqueId, int rank) {
  return New(communicator, ranks, rank);
}
ABSENT_API Status ncclCommInitRankConfig(void** communicator, int ranks, UniqueId, int rank,
                                         void*) {
  return New(communicator, ranks, rank);
}
ABSENT_API Status ncclCommInitRankScalable(void** communicator, int ranks, int rank, int, void*,
                                           void*) {
  return New(communicator, ranks, rank);
}
ABSENT_API Status ncclCommInitAll(void** communicators, int ranks, const int*) {
  for (int rank = 0; rank < ranks; ++rank) New(communicators + rank, ranks, rank);
  return kSuccess;
}
ABSENT_API Status ncclCommSplit(const Communicator* whole, int color, int, void** part, void*) {
  *part = nullptr;
  return color < 0 ? kSuccess : New(part, whole->ranks, whole->rank);
}
ABSENT_API Status ncclCommDestroy(Communicator* communicator) { return End(communicator); }
ABSENT_API Status ncclCommAbort(Communicator* communicator) { return End(communicator); }
ABSENT_API Status ncclCommCount(const Communicator* communicator, int* ranks) {
  *ranks = communicator->ranks;
  return kSuccess;
}
ABSENT_API Status ncclCommUserRank(const Communicator* communicator, int* rank) {
  *rank = communicator->rank;
  return kSuccess;
}
ABSENT_API Status ncclCommCuDevice(const Communicator*, int* device) {
  *device = CurrentDevice();
  return kSuccess;
}
ABSENT_API Status ncclCommGetAsyncError(void*, Status* status) {
  *status = kSuccess;
  return kSuccess;
}
ABSENT_API const char* ncclGetLastError(void*) { return ""; }

ABSENT_API Status ncclMemAlloc(void** pointer, size_t bytes) {
  return Allocate(CurrentDevice(), static_cast<int64_t>(bytes), pointer) == kSuccess ? kSuccess
                                                                                     : kCudaError;
}
ABSENT_API Status ncclMemFree(void* pointer) {
  Free(pointer);
  return kSuccess;
}

ABSENT_API Status ncclAllReduce(const void* from, void* to, size_t count, int type, int, void*,
                                void*) {
  return Move(from, to, BytesOf(count, type));
}
ABSENT_API Status ncclReduce(const void* from, void* to, size_t count, int type, int, int, void*,
                             void*) {
  return Move(from, to, BytesOf(count, type));
}
ABSENT_API Status ncclBroadcast(const void* from, void* to, size_t count, int type, int, void*,
                                void*) {
  return Move(from, to, BytesOf(count, type));
}
ABSENT_API Status ncclAllGather(const void* from, char* to, size_t count, int type,
                                const Communicator* communicator, void*) {
  const size_t bytes = BytesOf(count, type);
  for (int rank = 0; rank < communicator->ranks; ++rank) {
    Move(from, to + static_cast<size_t>(rank) * bytes, bytes);
  }
  return kSuccess;
}
ABSENT_API Status ncclReduceScatter(const char* from, void* to, size_t count, int type, int,
                                    const Communicator* communicator, void*) {
  const size_t bytes = BytesOf(count, type);
  return Move(from + static_cast<size_t>(communicator->rank) * bytes, to, bytes);
}

}  // namespace onnxfit::absent
