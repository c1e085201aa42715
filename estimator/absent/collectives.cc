// NCCL: collectives.  Small values go from rank to rank (exchange.h), known ones and guesses.  Of
// all else nothing moves between processes: each rank finds its own values in the place of the
// others', as a guess.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/absent/contents.h"
#include "estimator/absent/counts.h"
#include "estimator/absent/current.h"
#include "estimator/absent/events.h"
#include "estimator/absent/exchange.h"
#include "estimator/absent/memory.h"
#include "estimator/absent/reductions.h"
#include "estimator/absent/status.h"
#include "estimator/base/nccl.h"

namespace onnxfit::absent {
namespace {

using Told = std::vector<std::optional<Value>>;  // by each rank, where it has something to tell

struct Communicator {
  int ranks;
  int rank;
  std::string name;   // the same for all ranks
  int calls = 0;      // of collectives: all ranks make the same ones, in the same order
  int withdrawn = 0;  // what was told in earlier calls than this one
  int group = -1;     // of which the last call was, and that group's first
  int group_first = 0;
  std::map<int, int> sent = {};      // messages by the rank that gets them
  std::map<int, int> received = {};  // and by the one that sent them
  bool is_alone = false;             // another rank did not answer
  void* buffers = nullptr;           // on the card; none of a rank that has nobody to send to
  int place = 0;                     // of that card
};

constexpr Status kCudaError = 1;  // ncclUnhandledCudaError

// What NCCL says then (its libnccl.so.2 of 2.28.9 has the text), and keeps of the last error.
constexpr const char* kNoRoom = "Cuda failure 2 'out of memory'";
const char* last_error = "";

Status OutOfMemory() {
  last_error = kNoRoom;
  return kCudaError;
}

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
Status New(void** communicator, int ranks, int rank, const std::string& name,
           int device = CurrentDevice()) {
  void* buffers = nullptr;
  const int place = HasCard(device) ? Machine().cards[static_cast<size_t>(device)].place : 0;
  if (ranks > 1) {
    CountCommunicators(place, 1);
    if (Allocate(device, static_cast<uint64_t>(NcclLeastBytes()), &buffers) != kSuccess) {
      CountCommunicators(place, -1);
      return OutOfMemory();
    }
  }
  *communicator = new Communicator{
      .ranks = ranks, .rank = rank, .name = name, .buffers = buffers, .place = place};
  return kSuccess;
}

// The rest of it stays: another thread may be in a call.
Status End(Communicator* communicator) {
  if (communicator == nullptr || communicator->buffers == nullptr) return kSuccess;
  Free(std::exchange(communicator->buffers, nullptr));
  CountCommunicators(communicator->place, -1);
  return kSuccess;
}

std::string NameOf(const UniqueId& id) { return {id.bytes, strnlen(id.bytes, sizeof id.bytes)}; }

Status Move(const void* from, void* to, size_t bytes) {
  if (from != to && from != nullptr && to != nullptr) CopyBytes(to, from, bytes);
  return kSuccess;
}

// What a rank has to tell of a buffer.
std::optional<Value> Kept(const void* from, size_t bytes) {
  if (IsDevice(from)) return ReadValue(from, bytes);
  return Value{{static_cast<const char*>(from), bytes}, Basis::kKnown};
}

// --- Groups: what is asked between ncclGroupStart and ncclGroupEnd waits for nobody --------

thread_local int group_depth = 0;
thread_local int group_number = 0;  // the same for all that is asked in one group
std::atomic<int> groups = 0;
thread_local std::vector<std::function<void()>> group_waits;

void WhenGroupEnds(std::function<void()> wait) {
  if (group_depth > 0) return group_waits.push_back(std::move(wait));
  wait();
}

void EndGroup() {
  if (--group_depth > 0) return;
  const auto waits = std::exchange(group_waits, {});
  for (const auto& wait : waits) wait();
}

// --- Collectives ---------------------------------------------------------------------------

std::string CallName(const Communicator& all, int call, int rank) {
  return all.name + "-" + std::to_string(call) + "-" + std::to_string(rank);
}

// The first call of the group that this one is of.
int FirstOfGroup(Communicator& all, int call) {
  if (group_depth == 0 || all.group != group_number) all.group_first = call;
  all.group = group_number;
  return all.group_first;
}

// So that few files lie about.  Who took part in a group has read all that was told before it.
void WithdrawBefore(Communicator& all, int call) {
  for (; all.withdrawn < call; ++all.withdrawn) Withdraw(CallName(all, all.withdrawn, all.rank));
}

// Tells the others `from`, of those ranks that have something to tell, and hands `take` what each
// of them told once it is there.  Nobody tells anything of large buffers, or where a rank does not
// answer.
template <class Take>
Status Exchange(Communicator& all, const void* from, size_t bytes, int only_rank, Take take) {
  if (all.ranks < 2) return kSuccess;
  const Told nothing(static_cast<size_t>(all.ranks));
  if (all.is_alone || bytes > kMostExchanged) {
    WhenGroupEnds([nothing, take] { take(nothing); });
    return kSuccess;
  }
  const int call = all.calls++;
  const int first = FirstOfGroup(all, call);
  if (only_rank < 0 || only_rank == all.rank)
    Publish(CallName(all, call, all.rank), Kept(from, bytes));
  WhenGroupEnds([&all, call, first, only_rank, nothing, take] {
    Told told = nothing;
    for (int rank = 0; rank < all.ranks; ++rank) {
      if (only_rank >= 0 && rank != only_rank) continue;
      if (all.is_alone || !Await(CallName(all, call, rank), told[static_cast<size_t>(rank)]))
        all.is_alone = true;
    }
    if (only_rank < 0 && !all.is_alone) WithdrawBefore(all, first);
    take(all.is_alone ? nothing : told);
  });
  return kSuccess;
}

// What was told, or else what is there already, as a guess.
void Write(void* to, const std::optional<Value>& told, size_t skip, size_t bytes) {
  const bool is_told = told && told->bytes.size() >= skip + bytes;
  if (!IsDevice(to)) {
    if (is_told && bytes > 0) std::memcpy(to, told->bytes.data() + skip, bytes);
  } else if (is_told) {
    WriteBytes(to, told->bytes.data() + skip, bytes, told->basis);
  } else {
    Doubt(to, bytes);
  }
}

Status Reduce(Communicator& all, const void* from, char* to, size_t count, int type, int operation,
              size_t skip, size_t taken) {
  const size_t bytes = BytesOf(count, type);
  return Exchange(all, from, bytes, -1, [=](const Told& told) {
    Write(to, Reduced(told, type, operation), skip, taken);
  });
}

}  // namespace

ABSENT_API Status ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> count = 0;
  *id = {};
  const std::string name = std::to_string(getpid()) + "_" + std::to_string(++count);
  std::copy(name.begin(), name.end(), id->bytes);
  return kSuccess;
}
ABSENT_API Status ncclCommInitRank(void** communicator, int ranks, UniqueId id, int rank) {
  return New(communicator, ranks, rank, NameOf(id));
}
ABSENT_API Status ncclCommInitRankConfig(void** communicator, int ranks, UniqueId id, int rank,
                                         void*) {
  return New(communicator, ranks, rank, NameOf(id));
}
ABSENT_API Status ncclCommInitRankScalable(void** communicator, int ranks, int rank, int,
                                           const UniqueId* id, void*) {
  return New(communicator, ranks, rank, NameOf(*id));
}
ABSENT_API Status ncclCommInitAll(void** communicators, int ranks, const int* devices) {
  UniqueId id;
  ncclGetUniqueId(&id);
  for (int rank = 0; rank < ranks; ++rank) {
    const int device = devices == nullptr ? rank : devices[rank];
    const Status status = New(communicators + rank, ranks, rank, NameOf(id), device);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}
// Ranks of one color, in the order of their keys.
ABSENT_API Status ncclCommSplit(Communicator* whole, int color, int key, void** part, void*) {
  *part = nullptr;
  const int own[2] = {color, key};
  const std::string name =
      whole->name + "_" + std::to_string(whole->calls) + "_" + std::to_string(color);
  std::vector<std::pair<int, int>> members = {{key, whole->rank}};  // themselves, if nobody answers
  const int group = std::exchange(group_depth, 0);                  // the answer is needed now
  Exchange(*whole, own, sizeof own, -1, [&](const Told& told) {
    if (whole->is_alone) return;
    members.clear();
    for (size_t rank = 0; rank < told.size(); ++rank) {
      int other[2] = {-1, 0};
      if (told[rank]) std::memcpy(other, told[rank]->bytes.data(), sizeof other);
      if (other[0] == color) members.emplace_back(other[1], static_cast<int>(rank));
    }
  });
  group_depth = group;
  if (color < 0) return kSuccess;
  std::sort(members.begin(), members.end());
  const auto place = std::find(members.begin(), members.end(), std::pair(key, whole->rank));
  return New(part, static_cast<int>(members.size()), static_cast<int>(place - members.begin()),
             name);
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
ABSENT_API const char* ncclGetLastError(void*) { return last_error; }

ABSENT_API Status ncclMemAlloc(void** pointer, size_t bytes) {
  return Allocate(CurrentDevice(), bytes, pointer) == kSuccess ? kSuccess : OutOfMemory();
}
ABSENT_API Status ncclMemFree(void* pointer) {
  Free(pointer);
  return kSuccess;
}

ABSENT_API Status ncclGroupStart() {
  if (group_depth++ == 0) group_number = ++groups;
  return kSuccess;
}
ABSENT_API Status ncclGroupEnd() {
  EndGroup();
  return kSuccess;
}

ABSENT_API Status ncclAllReduce(const void* from, char* to, size_t count, int type, int operation,
                                Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  WhenGroupEnds([=] { Move(from, to, bytes); });
  return Reduce(*all, from, to, count, type, operation, 0, bytes);
}
ABSENT_API Status ncclReduce(const void* from, char* to, size_t count, int type, int operation,
                             int root, Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  if (all->rank != root) return Reduce(*all, from, nullptr, count, type, operation, 0, 0);
  WhenGroupEnds([=] { Move(from, to, bytes); });
  return Reduce(*all, from, to, count, type, operation, 0, bytes);
}
ABSENT_API Status ncclReduceScatter(const char* from, char* to, size_t count, int type,
                                    int operation, Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  const size_t skip = static_cast<size_t>(all->rank) * bytes;
  WhenGroupEnds([=] { Move(from + skip, to, bytes); });
  return Reduce(*all, from, to, count * static_cast<size_t>(all->ranks), type, operation, skip,
                bytes);
}

ABSENT_API Status ncclBroadcast(const void* from, void* to, size_t count, int type, int root,
                                Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  if (all->rank == root) Move(from, to, bytes);
  return Exchange(*all, from, bytes, root, [=](const Told& told) {
    if (all->rank != root) Write(to, told[static_cast<size_t>(root)], 0, bytes);
  });
}
ABSENT_API Status ncclBcast(void* buffer, size_t count, int type, int root, Communicator* all,
                            void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, all, stream);
}
ABSENT_API Status ncclAllGather(const void* from, char* to, size_t count, int type,
                                Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  const auto place = [=](size_t rank) { return to + rank * bytes; };
  WhenGroupEnds([=] {
    for (int rank = 0; rank < all->ranks; ++rank)
      Move(from, place(static_cast<size_t>(rank)), bytes);
  });
  return Exchange(*all, from, bytes, -1, [=](const Told& told) {
    for (size_t rank = 0; rank < told.size(); ++rank) Write(place(rank), told[rank], 0, bytes);
  });
}

// Of NCCL 2.28.
ABSENT_API Status ncclAlltoAll(const char* from, char* to, size_t count, int type,
                               Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  const size_t skip = static_cast<size_t>(all->rank) * bytes;
  return Exchange(*all, from, bytes * static_cast<size_t>(all->ranks), -1, [=](const Told& told) {
    for (size_t rank = 0; rank < told.size(); ++rank)
      Write(to + rank * bytes, told[rank], skip, bytes);
  });
}
ABSENT_API Status ncclGather(const void* from, char* to, size_t count, int type, int root,
                             Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  return Exchange(*all, from, bytes, -1, [=](const Told& told) {
    for (size_t rank = 0; rank < told.size() && all->rank == root; ++rank)
      Write(to + rank * bytes, told[rank], 0, bytes);
  });
}
ABSENT_API Status ncclScatter(const void* from, void* to, size_t count, int type, int root,
                              Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  const size_t skip = static_cast<size_t>(all->rank) * bytes;
  return Exchange(*all, from, bytes * static_cast<size_t>(all->ranks), root, [=](const Told& told) {
    Write(to, told[static_cast<size_t>(root)], skip, bytes);
  });
}

namespace {
std::string MessageName(const Communicator& all, int from, int to, int number) {
  return all.name + "-" + std::to_string(from) + "to" + std::to_string(to) + "-" +
         std::to_string(number);
}
}  // namespace

ABSENT_API Status ncclSend(const void* from, size_t count, int type, int to, Communicator* all,
                           void*) {
  const size_t bytes = BytesOf(count, type);
  if (bytes <= kMostExchanged)
    Publish(MessageName(*all, all->rank, to, all->sent[to]++), Kept(from, bytes));
  return kSuccess;
}
ABSENT_API Status ncclRecv(void* to, size_t count, int type, int from, Communicator* all, void*) {
  const size_t bytes = BytesOf(count, type);
  if (bytes > kMostExchanged || all->is_alone) {
    Doubt(to, bytes);
    return kSuccess;
  }
  const std::string name = MessageName(*all, from, all->rank, all->received[from]++);
  WhenGroupEnds([=] {
    std::optional<Value> told;
    all->is_alone = all->is_alone || !Await(name, told);
    Write(to, told, 0, bytes);
    Withdraw(name);
  });
  return kSuccess;
}

}  // namespace onnxfit::absent
