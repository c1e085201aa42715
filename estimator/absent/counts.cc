#include "estimator/absent/counts.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>

#include "estimator/absent/card.h"
#include "estimator/absent/process_stat.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// Zeros of its own where there is no folder, so that nobody has to ask.
SharedCounts* MapCounts() {
  const std::string path = Machine().folder + "/" + kCountsFile;
  const int file =
      Machine().folder.empty() ? -1 : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool is_file = file >= 0 && ftruncate(file, sizeof(SharedCounts)) == 0;
  const int flags = is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const at =
      mmap(nullptr, sizeof(SharedCounts), PROT_READ | PROT_WRITE, flags, is_file ? file : -1, 0);
  if (file >= 0) close(file);
  return at == MAP_FAILED ? nullptr : static_cast<SharedCounts*>(at);
}

SharedCounts& Shared() {
  static SharedCounts* const counts = MapCounts();
  return *counts;
}

// What is open is that of the highest peak, unless two processes raise it at the same instant.
void RaisePeak(int place, int64_t bytes) {
  std::atomic<int64_t>& peak = Shared().peak_bytes[place];
  int64_t before = peak.load();
  while (before < bytes) {
    if (!peak.compare_exchange_weak(before, bytes)) continue;
    Shared().open_at_peak.contexts[place] = Shared().open.contexts[place].load();
    Shared().open_at_peak.communicators[place] = Shared().open.communicators[place].load();
    return;
  }
}

void RaiseHostPeak(HostMemory kind, int64_t bytes) {
  std::atomic<int64_t>& peak = Shared().host_peak_bytes[kind];
  for (int64_t before = peak.load(); before < bytes;) {
    if (peak.compare_exchange_weak(before, bytes)) return;
  }
}

void GiveBackAll(SharedProcess& process) {
  for (int kind = 0; kind < kHostMemories; ++kind) {
    Shared().host_bytes[kind] -= process.host_bytes[kind].exchange(0);
  }
  for (int place = 0; place < kMostCards; ++place) {
    Shared().bytes[place] -= process.bytes[place].exchange(0);
    Shared().open.contexts[place] -= process.open.contexts[place].exchange(0);
    Shared().open.communicators[place] -= process.open.communicators[place].exchange(0);
  }
}

// The place of this process; null where it has none yet.
SharedProcess* FindOwn() {
  const int32_t pid = getpid();
  for (SharedProcess& process : Shared().processes) {
    if (process.pid == pid) return &process;
  }
  return nullptr;
}

// Found anew in a child that was forked.
SharedProcess& Own() {
  static thread_local SharedProcess* own = nullptr;
  const int32_t pid = getpid();
  if (own != nullptr && own->pid == pid) return *own;
  own = FindOwn();
  if (own != nullptr) return *own;
  for (SharedProcess& process : Shared().processes) {
    int32_t none = 0;
    if (process.pid.compare_exchange_strong(none, pid)) return *(own = &process);
  }
  return *(own = &Shared().processes[kMostProcesses - 1]);  // more than there are places share one
}

// The most that this process held of each card since somebody last asked.
std::atomic<int64_t> own_peaks[kMostCards];

void RaiseOwnPeak(int place, int64_t bytes) {
  int64_t before = own_peaks[place].load();
  while (before < bytes && !own_peaks[place].compare_exchange_weak(before, bytes)) {
  }
}

bool IsZombie(int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto stat = ParseProcessStat(line);
  return stat && stat->state == 'Z';
}

bool TryTake(int place, int64_t bytes, int64_t total) {
  int64_t before = Shared().bytes[place].load();
  do {
    if (bytes > total - before) return false;
  } while (!Shared().bytes[place].compare_exchange_weak(before, before + bytes));
  RaisePeak(place, before + bytes);
  RaiseOwnPeak(place, Own().bytes[place] += bytes);
  return true;
}

}  // namespace

void GiveBackOfEnded() {
  for (SharedProcess& process : Shared().processes) {
    int32_t pid = process.pid;
    if (pid == 0 || IsRunning(process)) continue;
    GiveBackAll(process);
    process.pid.compare_exchange_strong(pid, 0);
  }
}

void CountHost(HostMemory kind, int64_t more) {
  RaiseHostPeak(kind, Shared().host_bytes[kind] += more);
  Own().host_bytes[kind] += more;
}

void CountContexts(int place, int more) {
  Shared().open.contexts[place] += more;
  Own().open.contexts[place] += more;
}

bool TakeBytes(int place, int64_t bytes) {
  const int64_t total = Machine().all[static_cast<size_t>(place)].total_bytes;
  if (TryTake(place, bytes, total)) return true;
  GiveBackOfEnded();
  return TryTake(place, bytes, total);
}

void GiveBytes(int place, int64_t bytes) {
  Shared().bytes[place] -= bytes;
  Own().bytes[place] -= bytes;
}

int64_t FreeBytes(int place) {
  const int64_t total = Machine().all[static_cast<size_t>(place)].total_bytes;
  return total - Shared().bytes[place].load();
}

void CountCommunicators(int place, int more) {
  Shared().open.communicators[place] += more;
  Own().open.communicators[place] += more;
}

const SharedCounts& Counts() { return Shared(); }

bool IsRunning(const SharedProcess& process) {
  const int32_t pid = process.pid;
  return pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH) && !IsZombie(pid);
}

namespace {
// A process that ends gives back what it holds; one that is killed is found by the next that asks.
[[gnu::destructor]] void GiveBackOwn() {
  if (Machine().folder.empty()) return;
  SharedProcess* const own = FindOwn();
  if (own != nullptr) GiveBackAll(*own);
}
}  // namespace

ABSENT_API int64_t onnxfit_held_bytes(int device, int64_t* most) {
  if (!HasCard(device)) return 0;
  const int place = Machine().cards[static_cast<size_t>(device)].place;
  const int64_t now = Own().bytes[place].load();
  *most = std::max(own_peaks[place].exchange(now), now);
  return now;
}

}  // namespace onnxfit::absent
