#include "cli/git.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "cli/git_hints.h"
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
