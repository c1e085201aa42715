#include "cli/host_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process_tree.h"

namespace onnxfit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks(20);
constexpr int kRests = 25;  // as long as a look took, before the next

// Of a file of lines such as "RssAnon:   123 kB" (proc(5)), the sum of those of `names`.
int64_t SumOfLines(const std::string& path, std::initializer_list<std::string_view> names) {
  std::ifstream file(path);
  int64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(0, colon);
    if (std::ranges::find(names, name) == names.end()) continue;
    sum += 1024 * std::strtoll(line.c_str() + colon + 1, nullptr, 10);
  }
  return sum;
}

std::string ProcOf(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// Without a page table walk; what processes share counts in each of them.
int64_t AtMost(const std::vector<pid_t>& processes) {
  int64_t sum = 0;
  for (const pid_t pid : processes) {
    sum += SumOfLines(ProcOf(pid, "status"), {"RssAnon", "RssShmem"});
  }
  return sum;
}

// Each page once: of what n processes share, each has an n-th.
int64_t Exactly(const std::vector<pid_t>& processes) {
  int64_t sum = 0;
  for (const pid_t pid : processes) {
    sum += SumOfLines(ProcOf(pid, "smaps_rollup"), {"Pss_Anon", "Pss_Shmem"});
  }
  return sum;
}

}  // namespace

HostWatch::HostWatch() : thread_([this] { Watch(); }) {}

HostWatch::~HostWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wakes_.notify_all();
  thread_.join();
}

HostPeak HostWatch::Peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void HostWatch::Watch() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    Look();
    const Clock::duration rest = kRests * (Clock::now() - begin);
    lock.lock();
    wakes_.wait_for(lock, std::max<Clock::duration>(rest, kBetweenLooks),
                    [this] { return is_over_; });
  }
}

// The exact sum is asked for where it may be a peak alone.
void HostWatch::Look() {
  const std::vector<pid_t> processes = DescendantsOf(getpid(), AllProcesses());
  int64_t bytes = AtMost(processes);
  if (bytes <= Peak().bytes) return;
  const int64_t exact = processes.size() > 1 ? Exactly(processes) : bytes;
  if (exact > 0) bytes = std::min(bytes, exact);
  const std::lock_guard lock(mutex_);
  if (bytes > peak_.bytes) peak_ = {bytes, static_cast<int64_t>(processes.size())};
}

}  // namespace onnxfit
