#include "cli/left_processes.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "cli/process_tree.h"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace onnxfit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kByThemselves(1000);  // a pipe that closes ends most helpers
constexpr std::chrono::milliseconds kAsked(5000);
constexpr std::chrono::milliseconds kEnded(1000);
constexpr std::chrono::milliseconds kBetween(10);

#if defined(__linux__)
void TakeOrphans(bool take) { prctl(PR_SET_CHILD_SUBREAPER, take ? 1 : 0, 0, 0, 0); }
#else
void TakeOrphans(bool /*take*/) {}
#endif

RunningProcesses Children() {
  RunningProcesses children = AllProcesses();
  std::erase_if(children, [](const auto& one) { return one.second.parent != getpid(); });
  return children;
}

// False once nothing is left.
bool Reap() {
  pid_t ended = 0;
  do {
    ended = waitpid(-1, nullptr, WNOHANG);
  } while (ended > 0);
  return ended == 0;
}

// Sends each child the signal once, also those that become ours as their parents end; 0 is none.
// False once nothing is left.
bool Signal(int signal, std::chrono::milliseconds most, std::vector<std::string>* names) {
  std::set<pid_t> told;
  const Clock::time_point until = Clock::now() + most;
  while (Reap()) {
    if (Clock::now() > until) return true;
    for (const auto& [pid, stat] : signal == 0 ? RunningProcesses() : Children()) {
      if (!told.insert(pid).second) continue;
      kill(pid, signal);
      if (names != nullptr) names->push_back(stat.name);
    }
    std::this_thread::sleep_for(kBetween);
  }
  return false;
}

}  // namespace

LeftProcesses::LeftProcesses() { TakeOrphans(true); }
LeftProcesses::~LeftProcesses() { TakeOrphans(false); }

std::vector<std::string> LeftProcesses::EndAll() {
  std::vector<std::string> names;
  if (Signal(0, kByThemselves, nullptr) && Signal(SIGTERM, kAsked, &names)) {
    Signal(SIGKILL, kEnded, nullptr);
  }
  return names;
}

}  // namespace onnxfit
