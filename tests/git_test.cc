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
        "git:mian: expected a branch, a tag or a commit, found none of this name (try: git fetch "
        "origin mian)");
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
        "--unshallow, or fetch-depth: 0 of actions/checkout)");
  CHECK(*GitRef("HEAD", ".").Read("a") == "b");
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
