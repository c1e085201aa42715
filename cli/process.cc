#include "cli/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "cli/left_processes.h"
#include "cli/waiting_program.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// A pipe whose ends are closed with it.
struct Pipe {
  std::array<int, 2> ends = {-1, -1};

  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error({.text = fmt::format("no pipe: {}", std::strerror(errno))});
    }
  }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void Close(size_t end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Ours, and `more`, which come first.
std::vector<std::string> Environment(std::vector<std::string> variables) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool is_set = std::ranges::any_of(
        variables, [&](const std::string& other) { return other.starts_with(name); });
    if (!is_set) variables.emplace_back(text);
  }
  return variables;
}

pid_t Start(const std::vector<std::string>& words, const ProcessPlace& place, const Pipe& out,
            const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  if (!place.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, place.folder.c_str());
  }
  std::vector<std::string> more = place.variables;
  more.emplace_back("LC_ALL=C");  // messages that do not depend on the user's language
  const std::vector<std::string> variables = Environment(std::move(more));
  pid_t child = -1;
  const int error = posix_spawnp(&child, words[0].c_str(), &actions, nullptr,
                                 Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw Error(
        {.text = fmt::format("{} could not be started: {}", words[0], std::strerror(error))});
  }
  return child;
}

// Appends what has come; false at its end.
bool ReadSome(int end, std::string& text) {
  std::array<char, 1 << 16> chunk = {};
  const ssize_t count = read(end, chunk.data(), chunk.size());
  if (count > 0) text.append(chunk.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

// Both to their ends, whichever comes first: a full pipe would stop the other side.
void ReadBoth(Pipe& out, Pipe& err, ProcessResult& result) {
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    std::array<pollfd, 2> ready = {pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) break;
    if (ready[0].revents != 0 && !ReadSome(out.ends[0], result.out)) out.Close(0);
    if (ready[1].revents != 0 && !ReadSome(err.ends[0], result.err)) err.Close(0);
  }
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& words, const ProcessPlace& place) {
  Pipe out;
  Pipe err;
  const pid_t child = Start(words, place, out, err);
  out.Close(1);
  err.Close(1);
  ProcessResult result;
  ReadBoth(out, err, result);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

namespace {

// Signals that the terminal sends to the program, too, which decides.
class Deaf {
 public:
  Deaf() {
    for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], SIG_IGN);
  }
  ~Deaf() {
    for (size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
  }
  Deaf(const Deaf&) = delete;
  Deaf& operator=(const Deaf&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGQUIT};
  std::array<void (*)(int), 2> before_ = {};
};

void Direct(const ProgramOutput& output, posix_spawn_file_actions_t& actions) {
  if (output.to_stderr) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (output.file.empty()) return;
  constexpr int kToFile = O_WRONLY | O_CREAT | O_APPEND;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.file.c_str(), kToFile, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
}

// Signals that ask us to end, which the program hears from us.
class PassedOn {
 public:
  PassedOn() {
    for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], PassOn);
  }
  ~PassedOn() {
    for (size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
    program_ = 0;
    early_ = 0;
  }
  PassedOn(const PassedOn&) = delete;
  PassedOn& operator=(const PassedOn&) = delete;

  static void To(pid_t program) {
    program_ = program;
    if (early_ != 0) kill(program, early_);
  }

 private:
  static void PassOn(int signal) {
    if (program_ == 0) early_ = signal;
    if (program_ != 0) kill(program_, signal);
  }

  static constexpr std::array<int, 2> kSignals = {SIGTERM, SIGHUP};
  static inline volatile pid_t program_ = 0;
  static inline volatile std::sig_atomic_t early_ = 0;  // came before it was known
  std::array<void (*)(int), 2> before_ = {};
};

ProgramEnd EndOf(int status) {
  if (WIFEXITED(status)) return {.exit_code = WEXITSTATUS(status)};
  return {.exit_code = 128 + WTERMSIG(status), .signal = WTERMSIG(status)};
}

}  // namespace

ProgramEnd RunAtTerminal(const std::vector<std::string>& words,
                         const std::vector<std::string>& variables, const ProgramOutput& output,
                         const ProgramPatience& patience) {
  const std::vector<std::string> environment = Environment(variables);
  posix_spawnattr_t attributes;  // which gives the program its signals back
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  Direct(output, actions);
  const Deaf deaf;
  const PassedOn passed_on;
  LeftProcesses left;
  pid_t child = -1;
  const int error = posix_spawnp(&child, words[0].c_str(), &actions, &attributes,
                                 Pointers(words).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    throw Error(
        {.text = fmt::format("{} could not be started: {}", words[0], std::strerror(error))});
  }
  PassedOn::To(child);
  WaitingProgram waiting(child, patience);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ProgramEnd end = EndOf(status);
  end.waited_at = waiting.Stop();
  end.left = left.EndAll();
  return end;
}

std::string InALine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == '\n' || c == '\t' || c == ' ';
    if (!is_space) line += c;
    if (is_space && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace onnxfit
