#include "cli/git.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "cli/process.h"
#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {
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
  const Error::Parts parts = {.where = "git:" + ref};
  const ProcessResult repository = Git(folder, {"rev-parse", "--is-shallow-repository"});
  if (repository.exit_code != 0) {
    throw Error(
        {.where = parts.where,
         .text = fmt::format("expected a git repository, git says: {}", InALine(repository.err))});
  }
  if (repository.out.starts_with("true")) {
    throw Error({.where = parts.where,
                 .text = "expected a ref, found none of this name: this clone is shallow",
                 .hint = "git fetch --unshallow, or fetch-depth: 0 of actions/checkout"});
  }
  throw Error({.where = parts.where,
               .text = "expected a branch, a tag or a commit, found none of this name",
               .hint = "git fetch origin " + ref});
}

// The folder of `path` and how git calls the file from there.  It reads "./" as the folder.
std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const fs::path whole(path);
  const std::string folder = ExistingFolder(whole.parent_path());
  return {folder, "./" + whole.lexically_relative(folder).string()};
}

}  // namespace

GitRef::GitRef(std::string ref, const std::string& folder) : ref_(std::move(ref)) {
  const bool is_flag = ref_.empty() || ref_[0] == '-';
  const std::vector<std::string> words = {"rev-parse", "--verify", "--quiet", ref_ + "^{commit}"};
  if (is_flag || Git(folder, words).exit_code != 0) RefuseRef(ref_, folder);
}

std::optional<std::string> GitRef::Read(const std::string& path) const {
  const auto [folder, name] = SplitPath(path);
  const std::string object = fmt::format("{}:{}", ref_, name);
  if (Git(folder, {"cat-file", "-e", object}).exit_code != 0) return std::nullopt;
  ProcessResult blob = Git(folder, {"show", object});
  // Where Git LFS is set up, git's filters give what the pointer stands for.
  if (blob.out.starts_with(kLfsPointer)) blob = Git(folder, {"cat-file", "--filters", object});
  if (blob.exit_code != 0 || blob.out.starts_with(kLfsPointer)) {
    throw Error({.where = fmt::format("git:{}:{}", ref_, path),
                 .text = "expected a model, found a Git LFS pointer: the model itself is not here",
                 .hint = fmt::format("git lfs fetch origin {}", ref_)});
  }
  return std::move(blob.out);
}

}  // namespace onnxfit
