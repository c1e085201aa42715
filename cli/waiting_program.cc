#include "cli/waiting_program.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cli/process_tree.h"

namespace onnxfit {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBusyPart = 10;  // a tenth of a processor is no longer idle
constexpr int64_t kToWrite = 2;     // seconds in which it writes what it knows
constexpr int64_t kToEnd = 30;      // seconds that it has once it was asked

// --- Its processes ------------------------------------------------------------------------------

// Of one of its threads.
bool IsAnyBusy(pid_t pid) {
  std::error_code error;
  const fs::path folder = fs::path("/proc") / std::to_string(pid) / "task";
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string line;
    std::getline(std::ifstream(at->path() / "stat"), line);
    const auto stat = absent::ParseProcessStat(line);
    if (stat && (stat->state == 'R' || stat->state == 'D')) return true;
  }
  return false;
}

// --- Its ports ----------------------------------------------------------------------------------

// "socket:[12345]" of each open descriptor.
void AddSockets(pid_t pid, std::set<std::string>& sockets) {
  std::error_code error;
  const fs::path folder = fs::path("/proc") / std::to_string(pid) / "fd";
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(at->path(), gone).string();
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
}

// Rows of /proc/net/tcp (proc(5)): "0: 0100007F:1F40 00000000:0000 0A … inode", numbers in hex.
struct Ports {
  std::set<int> listening;  // of the program's
  std::set<int> connected;  // of anybody's, at this end
};

void AddPorts(const char* table, const std::set<std::string>& sockets, Ports& ports) {
  constexpr unsigned kEstablished = 1;
  constexpr unsigned kListen = 10;
  std::ifstream rows(table);
  for (std::string row; std::getline(rows, row);) {
    unsigned port = 0;
    unsigned state = 0;
    char inode[24] = {};
    if (std::sscanf(row.c_str(), " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %23s",
                    &port, &state, inode) != 3) {
      continue;
    }
    if (state == kEstablished) ports.connected.insert(static_cast<int>(port));
    if (state == kListen && sockets.contains(inode)) {
      ports.listening.insert(static_cast<int>(port));
    }
  }
}

int WaitingPort(const std::set<std::string>& sockets) {
  Ports ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) AddPorts(table, sockets, ports);
  for (const int port : ports.listening) {
    if (!ports.connected.contains(port)) return port;
  }
  return 0;
}

}  // namespace

ProcessesNow LookAt(pid_t program) {
  const RunningProcesses all = AllProcesses();
  ProcessesNow now;
  std::set<std::string> sockets;
  std::vector<pid_t> pids = DescendantsOf(program, all);
  if (all.contains(program)) pids.push_back(program);
  for (const pid_t pid : pids) {
    now.ticks += all.at(pid).ticks;
    now.is_busy = now.is_busy || IsAnyBusy(pid);
    AddSockets(pid, sockets);
  }
  now.port = WaitingPort(sockets);
  return now;
}

WaitingProgram::WaitingProgram(pid_t program, const ProgramPatience& patience)
    : file_(patience.file) {
  if (patience.seconds <= 0) return;
  thread_ = std::thread([this, program, patience] { Watch(program, patience.seconds); });
}

WaitingProgram::~WaitingProgram() { Stop(); }

int WaitingProgram::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return port_;
}

bool WaitingProgram::Rest(int64_t seconds) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return stops_; });
}

void WaitingProgram::Watch(pid_t program, int64_t seconds) {
  const auto ticks_a_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const uint64_t most = static_cast<uint64_t>(seconds) * ticks_a_second / kBusyPart;
  std::deque<ProcessesNow> looks;
  while (Rest(1)) {
    looks.push_back(LookAt(program));
    if (looks.back().is_busy || looks.back().port == 0) looks.clear();
    if (looks.size() <= static_cast<size_t>(seconds)) continue;
    // A process that ended took its ticks with it: something happened, too.
    const uint64_t first = looks.front().ticks;
    if (looks.back().ticks >= first && looks.back().ticks - first < most) break;
    looks.pop_front();
  }
  if (looks.size() > static_cast<size_t>(seconds)) End(program, looks.back().port);
}

void WaitingProgram::End(pid_t program, int port) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    port_ = port;
  }
  std::ofstream(file_).flush();
  if (!Rest(kToWrite)) return;
  kill(program, SIGTERM);
  if (Rest(kToEnd)) kill(program, SIGKILL);
}

}  // namespace onnxfit
