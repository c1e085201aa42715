#include <doctest/doctest.h>

#include <filesystem>

#include "cli/model_files.h"
#include "tests/temp_folder.h"

namespace onnxfit::model_globs_test {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

// A folder with links that lead in circles, out of it and nowhere.
void Fill(const TempFolder& folder) {
  for (const char* name : {"zoo/a/deep", "zoo/b", "zoo/.cache", "zoo/folder.onnx", ".git"}) {
    fs::create_directories(folder.Path(name));
  }
  for (const char* name : {"top.onnx", "zoo/x.onnx", "zoo/x.onnx.data", "zoo/X.onnx", "zoo/x2.onnx",
                           "zoo/x10.onnx", "zoo/.hidden.onnx", "zoo/a/y.onnx", "zoo/a/deep/z.onnx",
                           "zoo/b/w[1].onnx", "zoo/.cache/c.onnx", ".git/g.onnx"}) {
    folder.Write(name, "x");
  }
  fs::create_directory_symlink("..", folder.Path("zoo/a/loop"));
  fs::create_symlink("../top.onnx", folder.Path("zoo/linked.onnx"));
  fs::create_symlink("nowhere", folder.Path("zoo/dangling.onnx"));
}

}  // namespace

TEST_CASE("a glob is the files that match it, in the order of their bytes") {
  struct Row {
    const char* pattern;
    Paths paths;
  };
  const Row rows[] = {
      {"top.onnx", {"top.onnx"}},
      {"./top.onnx", {"./top.onnx"}},
      {"none.onnx", {}},
      {"", {}},
      {"zoo", {}},
      {"zoo/", {}},
      {"*.onnx", {"top.onnx"}},
      {"zoo/*.onnx",
       {"zoo/X.onnx", "zoo/linked.onnx", "zoo/x.onnx", "zoo/x10.onnx", "zoo/x2.onnx"}},
      {"zoo/x?.onnx", {"zoo/x2.onnx"}},
      {"zoo/[xX].onnx", {"zoo/X.onnx", "zoo/x.onnx"}},
      {"zoo/[!x].onnx", {"zoo/X.onnx"}},
      {"zoo/b/w[[]1].onnx", {"zoo/b/w[1].onnx"}},
      {"zoo/.*.onnx", {"zoo/.hidden.onnx"}},
      {"zoo/.cache/*", {"zoo/.cache/c.onnx"}},
      {"*/*/*.onnx", {"zoo/a/y.onnx", "zoo/b/w[1].onnx"}},
      {"*/a/loop/x.onnx", {"zoo/a/loop/x.onnx"}},
      {"zoo/../top.onnx", {"zoo/../top.onnx"}},
      {"**/top.onnx", {"top.onnx"}},
      {"zoo/**/[w-z].onnx", {"zoo/a/deep/z.onnx", "zoo/a/y.onnx", "zoo/x.onnx"}},
      {"**/**/y.onnx", {"zoo/a/y.onnx"}},
      {"**", {}},
      {"zoo/x.onnx/*", {}},
      {"missing/**/*.onnx", {}},
  };
  const TempFolder folder;
  Fill(folder);
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    CHECK(ExpandGlob(folder.Path(""), row.pattern) == row.paths);
  }
}

TEST_CASE("all folders below, but not through links or hidden ones") {
  const TempFolder folder;
  Fill(folder);
  CHECK(ExpandGlob(folder.Path(""), "**/*.onnx") ==
        Paths{"top.onnx", "zoo/X.onnx", "zoo/a/deep/z.onnx", "zoo/a/y.onnx", "zoo/b/w[1].onnx",
              "zoo/linked.onnx", "zoo/x.onnx", "zoo/x10.onnx", "zoo/x2.onnx"});
}

TEST_CASE("an absolute pattern stays absolute") {
  const TempFolder folder;
  Fill(folder);
  CHECK(ExpandGlob("elsewhere", folder.Path("zoo/a/*.onnx")) == Paths{folder.Path("zoo/a/y.onnx")});
}

TEST_CASE("letters that make a pattern") {
  for (const char* text : {"*", "a?", "[", "a/**/b"}) CHECK(IsGlob(text));
  for (const char* text : {"", "a/b.onnx", "a]", "a\\b"}) CHECK(!IsGlob(text));
}

}  // namespace onnxfit::model_globs_test
