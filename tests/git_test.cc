#include "cli/git.h"

#include <doctest/doctest.h>

#include "estimator/base/error.h"
#include "tests/working_folder.h"

namespace onnxfit::git_test {
namespace {

// What the error says, "" where there is none.
template <typename Work>
std::string ErrorOf(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string RefError(const std::string& ref) {
  return ErrorOf([&] { GitRef(ref, "."); });
}

}  // namespace

TEST_CASE("a ref has its own bytes of a file, whatever is there now") {
  const WorkingFolder folder;
  folder.MakeRepository();
  const std::string bytes("old\0\r\n\xFF", 7);
  folder.Write("a b/model.onnx", bytes);
  folder.Commit("one");
  folder.Git({"tag", "v1"});
  folder.Write("a b/model.onnx", "new");
  folder.Write("other.onnx", "x");
  folder.Commit("two");
  CHECK(*GitRef("v1", ".").Read("a b/model.onnx") == bytes);
  CHECK(*GitRef("main~1", "a b").Read("a b/model.onnx") == bytes);
  CHECK(*GitRef("main", ".").Read("a b/model.onnx") == "new");
  CHECK(*GitRef("main", ".").Read("./a b/../other.onnx") == "x");
  CHECK(!GitRef("v1", ".").Read("other.onnx"));
  CHECK(!GitRef("v1", ".").Read("gone/other.onnx"));
}

TEST_CASE("what git cannot say is no missing file") {
  const WorkingFolder folder;
  folder.MakeRepository();
  folder.Write("a.onnx", "a");
  folder.Write("b/c.onnx", "c");
  std::filesystem::create_symlink("a.onnx", "link.onnx");
  folder.Commit("one");
  const GitRef ref("main", ".");
  CHECK(ErrorOf([&] { ref.Read("link.onnx"); }) ==
        "git:main:link.onnx: expected a file, found a link, a folder or a submodule");
  CHECK(ErrorOf([&] { ref.Read("b"); }) ==
        "git:main:b: expected a file, found a link, a folder or a submodule");
  CHECK(ErrorOf([&] { ref.Read("../a.onnx"); }).starts_with("git:main:../a.onnx: git says: "));
  // Another repository does not have the commit.
  folder.Write("other/a.onnx", "a");
  folder.Git({"-C", "other", "init", "--quiet"});
  CHECK(ErrorOf([&] { ref.Read("other/a.onnx"); }).starts_with("git:main:other/a.onnx: git says"));
  // An object that is listed and not there, as in a partial clone.
  const std::string id = RunProcess({"git", "rev-parse", "main:a.onnx"}).out.substr(0, 40);
  std::filesystem::remove(".git/objects/" + id.substr(0, 2) + "/" + id.substr(2));
  CHECK(ErrorOf([&] { ref.Read("a.onnx"); }).starts_with("git:main:a.onnx: git says: "));
}

TEST_CASE("a file of a folder that is gone is read") {
  const WorkingFolder folder;
  folder.MakeRepository();
  folder.Write("models/deep/a.onnx", "a");
  folder.Commit("one");
  std::filesystem::remove_all("models");
  CHECK(*GitRef("main", "models/deep").Read("models/deep/a.onnx") == "a");
}

TEST_CASE("a ref that is not there is told") {
  const WorkingFolder folder;
  CHECK(
      RefError("main").starts_with("git:main: expected a git repository, git says: fatal: not a "
                                   "git repository"));
  folder.MakeRepository();
  folder.Write("a", "a");
  folder.Commit("one");
  CHECK(RefError("mian") ==
        "git:mian: expected a branch, a tag or a commit, found none of this name (try: git:main)");
  CHECK(RefError("v2").ends_with("(try: git branch -a, which lists what is here)"));
  for (const char* ref : {"", "--help", "-C", "main:a", "$(touch x)", "^main", "main..main"}) {
    CAPTURE(ref);
    CHECK(RefError(ref).find("found none of this name") != std::string::npos);
  }
}

TEST_CASE("a shallow clone says that it is one") {
  const WorkingFolder folder;
  folder.MakeRepository();
  folder.Write("a", "a");
  folder.Commit("one");
  folder.Git({"tag", "v1"});
  folder.Write("a", "b");
  folder.Commit("two");
  const std::string from = "file://" + std::filesystem::current_path().string();
  folder.Git({"clone", "--quiet", "--depth=1", "--no-tags", from, "clone"});
  std::filesystem::current_path("clone");
  CHECK(RefError("v1") ==
        "git:v1: expected a ref, found none of this name: this clone is shallow (try: git fetch "
        "--depth=1 origin tag v1, or fetch-depth: 0 of actions/checkout)");
  CHECK(*GitRef("HEAD", ".").Read("a") == "b");
  std::filesystem::current_path("..");
}

// A repository with two commits, a tag of the first, a branch and a hidden ref of the second, from
// which others are cloned.
class Origin : public WorkingFolder {
 public:
  Origin() {
    MakeRepository();
    Write("a", "a");
    Commit("one");
    Git({"tag", "v1"});
    Git({"tag", "-a", "-m", "signed off", "releases"});
    first_ = IdOf("HEAD");
    Write("a", "b");
    Commit("two");
    Git({"branch", "side"});
    Git({"update-ref", "refs/pull/7/head", "HEAD"});
    Git({"config", "uploadpack.allowReachableSHA1InWant", "true"});
    Git({"checkout", "--quiet", "-b", "feature"});
    Write("a", "c");
    Commit("three");
  }
  const std::string& first() const { return first_; }

 private:
  static std::string IdOf(const std::string& ref) {
    return RunProcess({"git", "rev-parse", ref}).out.substr(0, 40);
  }

  std::string first_;
};

// What stands behind "(try: " and is a command.
std::string HintOf(const std::string& error) {
  const size_t begin = error.find("(try: ");
  if (begin == std::string::npos) return "";
  const std::string hint = error.substr(begin + 6, error.size() - begin - 7);
  return hint.substr(0, hint.find(", or "));
}

TEST_CASE("what is told brings the ref, whatever the clone") {
  struct Row {
    const char* ref;
    const char* hint;          // of a clone of one branch
    const char* shallow_hint;  // of one that is shallow, too
  };
  const Row rows[] = {
      {"origin/main", "git fetch origin main:refs/remotes/origin/main",
       "git fetch --depth=1 origin main:refs/remotes/origin/main"},
      {"refs/remotes/origin/main", "git fetch origin main:refs/remotes/origin/main",
       "git fetch --depth=1 origin main:refs/remotes/origin/main"},
      {"remotes/origin/side", "git fetch origin side:refs/remotes/origin/side",
       "git fetch --depth=1 origin side:refs/remotes/origin/side"},
      {"main", "git fetch origin main:main", "git fetch --depth=1 origin main:main"},
      {"heads/main", "git fetch origin main:main", "git fetch --depth=1 origin main:main"},
      {"refs/heads/main", "git fetch origin main:main", "git fetch --depth=1 origin main:main"},
      {"v1", "git fetch origin tag v1", "git fetch --depth=1 origin tag v1"},
      {"tags/releases", "git fetch origin refs/tags/releases:refs/tags/releases",
       "git fetch --depth=1 origin refs/tags/releases:refs/tags/releases"},
      {"refs/pull/7/head", "git fetch origin refs/pull/7/head:refs/pull/7/head",
       "git fetch --depth=1 origin refs/pull/7/head:refs/pull/7/head"},
      {"origin/main~1", "git fetch origin main:refs/remotes/origin/main",
       "git fetch --unshallow origin main:refs/remotes/origin/main"},
      {"HEAD~1", nullptr, "git fetch --unshallow"},
  };
  for (const Row& row : rows) {
    for (const bool is_shallow : {false, true}) {
      const char* hint = is_shallow ? row.shallow_hint : row.hint;
      if (hint == nullptr) continue;
      CAPTURE(row.ref);
      CAPTURE(is_shallow);
      const Origin origin;
      const std::string from = "file://" + std::filesystem::current_path().string();
      origin.Git({"clone", "--quiet", "--no-tags", "--single-branch",
                  is_shallow ? "--depth=1" : "--no-local", from, "clone"});
      std::filesystem::current_path("clone");
      CHECK(HintOf(RefError(row.ref)) == hint);
      CHECK(RunProcess({"sh", "-c", hint}).exit_code == 0);
      CHECK(RefError(row.ref) == "");
      std::filesystem::current_path("..");
    }
  }
}

TEST_CASE("a commit is fetched by its id, and looked for by a part of it") {
  for (const size_t digits : {size_t{40}, size_t{10}}) {
    CAPTURE(digits);
    const Origin origin;
    const std::string id = origin.first().substr(0, digits);
    const std::string from = "file://" + std::filesystem::current_path().string();
    origin.Git({"clone", "--quiet", "--depth=1", "--no-tags", from, "clone"});
    std::filesystem::current_path("clone");
    const std::string hint = HintOf(RefError(id));
    CHECK(hint == (digits == 40 ? "git fetch --depth=1 origin " + id
                                : "git fetch --unshallow origin "
                                  "'+refs/heads/*:refs/remotes/origin/*'"));
    CHECK(RunProcess({"sh", "-c", hint}).exit_code == 0);
    CHECK(RefError(id) == "");
    std::filesystem::current_path("..");
  }
}

TEST_CASE("a remote is called what the clone calls it, and what it has is named") {
  const Origin origin;
  const std::string from = "file://" + std::filesystem::current_path().string();
  origin.Git({"clone", "--quiet", "--origin", "upstream", from, "clone"});
  std::filesystem::current_path("clone");
  CHECK(HintOf(RefError("main")) == "git:upstream/main");
  CHECK(RefError("upstream/main") == "");
  CHECK(HintOf(RefError("main~1")) == "git:upstream/main~1");
  CHECK(HintOf(RefError("later")) == "git fetch upstream later:later");
  CHECK(HintOf(RefError("origin/main")) == "git:upstream/main");
  CHECK(HintOf(RefError("HEAD~9")) == "");
  CHECK(HintOf(RefError("$(touch x)")) == "");
  std::filesystem::current_path("..");
}

TEST_CASE("a Git LFS pointer is told from a model") {
  const WorkingFolder folder;
  folder.MakeRepository();
  folder.Write("model.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  folder.Commit("one");
  const GitRef ref("main", ".");
  CHECK(ErrorOf([&] { ref.Read("model.onnx"); }) ==
        "git:main:model.onnx: expected a model, found a Git LFS pointer: the model itself is not "
        "here (try: git lfs fetch)");
}

// What Git LFS sets up is a filter; so a filter stands for it.
TEST_CASE("what a filter stores elsewhere is read through it") {
  const WorkingFolder folder;
  folder.MakeRepository();
  folder.Write("model.onnx", "version https://git-lfs.github.com/spec/v1\n");
  folder.Write(".gitattributes", "*.onnx filter=store\n");
  folder.Commit("one");
  folder.Git({"config", "filter.store.smudge", "sed 's/^version.*/the model/'"});
  CHECK(*GitRef("main", ".").Read("model.onnx") == "the model\n");
}

}  // namespace onnxfit::git_test
