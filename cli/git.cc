#include "cli/git.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/git_hints.h"
#include "cli/values.h"
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

// Ours, with messages that do not depend on the user's language.
std::vector<std::string> Environment() {
  std::vector<std::string> variables = {"LC_ALL=C"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LC_ALL=", 7) != 0) variables.emplace_back(*variable);
  }
  return variables;
}

pid_t Start(const std::vector<std::string>& words, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  const std::vector<std::string> variables = Environment();
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

ProcessResult RunProcess(const std::vector<std::string>& words) {
  Pipe out;
  Pipe err;
  const pid_t child = Start(words, out, err);
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

// What follows asks git.
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLfsPointer = "version https://git-lfs";

// `folder`, or the nearest one around it that is still there.
std::string ExistingFolder(fs::path folder) {
  std::error_code ignored;
  while (!folder.empty() && !fs::is_directory(folder, ignored)) folder = folder.parent_path();
  return folder.empty() ? "." : folder.string();
}

ProcessResult Git(const std::string& folder, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"git", "-C", ExistingFolder(folder)};
  all.insert(all.end(), words.begin(), words.end());
  return RunProcess(all);
}

// All that git says, in a line: what mends it often stands last.
std::string InALine(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == '\n' || c == '\t' || c == ' ';
    if (!is_space) line += c;
    if (is_space && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

[[noreturn]] void RefuseRef(const std::string& ref, const std::string& folder) {
  const std::string where = "git:" + ref;
  const ProcessResult repository = Git(folder, {"rev-parse", "--is-shallow-repository"});
  if (repository.exit_code != 0) {
    throw Error(
        {.where = where,
         .text = fmt::format("expected a git repository, git says: {}", InALine(repository.err))});
  }
  const bool is_shallow = repository.out.starts_with("true");
  const auto ask = [&](const std::vector<std::string>& words) {
    ProcessResult result = Git(folder, words);
    return result.exit_code == 0 ? std::move(result.out) : std::string();
  };
  throw Error({.where = where,
               .text = is_shallow ? "expected a ref, found none of this name: this clone is shallow"
                                  : "expected a branch, a tag or a commit, found none of this name",
               .hint = HintForMissing(ref, is_shallow, ask)});
}

// The folder of `path` and how git calls the file from there.  It reads "./" as the folder.
std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const fs::path whole(path);
  const std::string folder = ExistingFolder(whole.parent_path());
  return {folder, "./" + whole.lexically_relative(folder).string()};
}

// Whether git printed the id of an object: 40 or 64 hexadecimal digits and a line's end.
bool IsObjectId(const std::string& text) {
  const size_t digits = text.find_first_not_of("0123456789abcdef");
  return (digits == 40 || digits == 64) && text.substr(digits) == "\n";
}

[[noreturn]] void RefuseFile(const std::string& name, const std::string& text,
                             const std::string& hint = "") {
  throw Error({.where = name, .text = text, .hint = hint});
}

// What Git LFS or another filter stores elsewhere.
std::string ReadFiltered(const std::string& folder, const std::string& object,
                         const std::string& name) {
  ProcessResult blob = Git(folder, {"cat-file", "--filters", object});
  if (blob.exit_code != 0 || blob.out.starts_with(kLfsPointer)) {
    RefuseFile(name, "expected a model, found a Git LFS pointer: the model itself is not here",
               "git lfs fetch");
  }
  return std::move(blob.out);
}

}  // namespace

GitRef::GitRef(std::string ref, const std::string& folder) : ref_(std::move(ref)) {
  const bool is_flag = ref_.empty() || ref_[0] == '-';
  const std::vector<std::string> words = {"rev-parse", "--verify", "--quiet", ref_ + "^{commit}"};
  const ProcessResult commit = is_flag ? ProcessResult{} : Git(folder, words);
  if (commit.exit_code != 0 || !IsObjectId(commit.out)) RefuseRef(ref_, folder);
  commit_ = commit.out.substr(0, commit.out.size() - 1);
}

// Nothing is taken for missing but what git has looked for and not found.
std::optional<std::string> GitRef::Read(const std::string& path) const {
  const std::string name = fmt::format("git:{}:{}", ref_, path);
  const auto [folder, file] = SplitPath(path);
  const ProcessResult listed = Git(folder, {"ls-tree", "-z", commit_, "--", file});
  if (listed.exit_code != 0) RefuseFile(name, "git says: " + InALine(listed.err));
  if (listed.out.empty()) return std::nullopt;
  if (!listed.out.starts_with("100")) {
    RefuseFile(name, "expected a file, found a link, a folder or a submodule");
  }
  const std::string object = fmt::format("{}:{}", commit_, file);
  ProcessResult blob = Git(folder, {"show", object});
  if (blob.exit_code != 0) RefuseFile(name, "git says: " + InALine(blob.err));
  if (blob.out.starts_with(kLfsPointer)) return ReadFiltered(folder, object, name);
  return std::move(blob.out);
}

}  // namespace onnxfit
