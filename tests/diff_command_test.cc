#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/run_command.h"
#include "tests/working_folder.h"

namespace onnxfit::diff_command_test {
namespace {

// Two layers, the second twice as large: a weight, its gradient and AdamW's states.
WorkingFolder& TwoLayers(WorkingFolder& folder) {
  folder.Write("old.onnxtxt", OneLayer(20'000));
  folder.Write("new.onnxtxt", OneLayer(40'000));
  return folder;
}

std::string Unwrapped(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("two models are compared as they run") {
  WorkingFolder folder;
  TwoLayers(folder);
  const CommandResult same = RunCommand({"diff", "old.onnxtxt", "old.onnxtxt"});
  CHECK(same.code == 0);
  CHECK(same.out.starts_with("takes "));
  const CommandResult grown = RunCommand({"diff", "old.onnxtxt", "new.onnxtxt", "-f", "csv"});
  CHECK(grown.code == 0);
  const std::string weight = "fc_weight,,grew,parameter,1," + std::to_string(4 * 4 * 128 * 20'000) +
                             "," + std::to_string(4 * 4 * 128 * 40'000);
  CHECK(grown.out.find(weight) != std::string::npos);
}

TEST_CASE("a side may be a report, or what git has") {
  WorkingFolder folder;
  TwoLayers(folder);
  folder.MakeRepository();
  folder.Commit("one");
  folder.Write("old.onnxtxt", OneLayer(40'000));
  folder.Write("old.json", RunCommand({"new.onnxtxt", "-f", "json"}).out);
  folder.Write("table.json", RunCommand({"new.onnxtxt", "-f", "json", "-b", "1,2"}).out);
  const std::string grown =
      FirstLine(RunCommand({"diff", "git:main:old.onnxtxt", "old.onnxtxt"}).out);
  CHECK(grown.starts_with("grew by "));
  CHECK(FirstLine(RunCommand({"diff", "git:main:old.onnxtxt", "old.json"}).out) == grown);
  CHECK(RunCommand({"diff", "old.json", "old.onnxtxt"}).out.starts_with("takes "));

  struct Row {
    const char* old_side;
    const char* error;
  };
  const Row rows[] = {
      {"git:main", "git:main: expected git:REF:PATH (try: git:main:model.onnx)"},
      {"git:main:", "git:main:: expected git:REF:PATH (try: git:main:model.onnx)"},
      {"git:main:none.onnx", "git:main:none.onnx: expected a file, the ref has none of this name"},
      {"git:mian:old.onnxtxt",
       "git:mian: expected a branch, a tag or a commit, found none of this name"},
      {"table.json", "table.json: expected one report, found 2"},
      {"none.onnx", "none.onnx: a model or a report was expected, there is no such file"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.old_side);
    const CommandResult result = RunCommand({"diff", row.old_side, "old.onnxtxt"});
    CHECK(result.code == 2);
    CHECK(result.err.find(row.error) != std::string::npos);
    CHECK(result.out.empty());
  }
}

TEST_CASE("a model beside a report is asked what the report was") {
  WorkingFolder folder;
  TwoLayers(folder);
  const std::vector<std::string> flags = {"-b",  "32",          "-p",         "amp-bf16", "-o",
                                          "sgd", "--clip-grad", "--prefetch", "2"};
  std::vector<std::string> args = {"old.onnxtxt", "-f", "json"};
  args.insert(args.end(), flags.begin(), flags.end());
  folder.Write("old.json", RunCommand(args).out);
  const CommandResult alike = RunCommand({"diff", "old.onnxtxt", "old.json"});
  CHECK(alike.out.starts_with("takes "));
  CHECK(alike.out.find("was asked") == std::string::npos);
  CHECK(Unwrapped(alike.out).find("the model is asked what the report was: --batch 32, --precision "
                                  "amp-bf16, --optimizer sgd, --clip-grad true, --prefetch 2") !=
        std::string::npos);
  CHECK(RunCommand({"diff", "old.json", "old.onnxtxt"}).out.starts_with("takes "));
  // What somebody says holds, and is told.
  const std::string other = RunCommand({"diff", "old.json", "old.onnxtxt", "-b", "64"}).out;
  CHECK(other.find("batch was 32 and is 64") != std::string::npos);
  CHECK(other.find("precision was") == std::string::npos);
  // Two reports, and two models, are as they are.
  CHECK(RunCommand({"diff", "old.json", "old.json"}).out.find("is asked") == std::string::npos);
  CHECK(RunCommand({"diff", "old.onnxtxt", "old.onnxtxt"}).out.find("is asked") ==
        std::string::npos);
}

TEST_CASE("a dimension or an input that one side has need not be the other's") {
  WorkingFolder folder;
  folder.Write("old.onnxtxt", TokenLayer("seq"));
  folder.Write("new.onnxtxt", TokenLayer("tokens"));
  folder.Write("fixed.onnxtxt", TokenLayer("64"));
  const CommandResult renamed =
      RunCommand({"diff", "old.onnxtxt", "new.onnxtxt", "--dim", "seq=64", "--dim", "tokens=64"});
  CHECK(renamed.err.empty());
  CHECK(renamed.out.starts_with("takes "));
  CHECK(Unwrapped(renamed.out).find("dims was {\"seq\":64} and is {\"tokens\":64}") !=
        std::string::npos);
  const CommandResult fixed =
      RunCommand({"diff", "fixed.onnxtxt", "old.onnxtxt", "--dim", "seq=64"});
  CHECK(fixed.err.empty());
  CHECK(fixed.out.starts_with("takes "));

  struct Row {
    std::vector<std::string> flags;
    const char* error;
  };
  const Row rows[] = {
      {{"--dim", "sec=64"},
       "error: --dim sec=64: no free dimension of either has this name: old.onnxtxt has 'N', "
       "'seq', new.onnxtxt has 'N', 'tokens' (try: --dim seq=64)\n"},
      {{"--dim", "height=64"},
       "error: --dim height=64: no free dimension of either has this name: old.onnxtxt has 'N', "
       "'seq', new.onnxtxt has 'N', 'tokens' (try: --dim seq=64 --dim tokens=64)\n"},
      {{"--shape", "z=2x64x128"},
       "error: --shape z=2x64x128: no input of either has this name: old.onnxtxt has 'x', "
       "new.onnxtxt has 'x' (try: --shape x=2x64x128)\n"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"diff", "old.onnxtxt", "new.onnxtxt"};
    args.insert(args.end(), row.flags.begin(), row.flags.end());
    const CommandResult result = RunCommand(args);
    CHECK(result.code == 2);
    CHECK(result.err == row.error);
  }
}

TEST_CASE("--fail-above decides the exit code") {
  WorkingFolder folder;
  TwoLayers(folder);
  folder.Write("large.onnxtxt", OneLayer(200'000));
  struct Row {
    std::vector<std::string> flags;
    int code;
  };
  const Row rows[] = {{{}, 0},
                      {{"--fail-above", "0"}, 1},
                      {{"--fail-above", "1GiB"}, 0},
                      {{"--fail-above", "1%"}, 1},
                      {{"--fail-above", "1000%"}, 0},
                      {{"--fail-above", "0", "--exit-zero"}, 0}};
  for (const Row& row : rows) {
    std::vector<std::string> args = {"diff", "old.onnxtxt", "large.onnxtxt"};
    args.insert(args.end(), row.flags.begin(), row.flags.end());
    CAPTURE(row.flags.size());
    const CommandResult result = RunCommand(args);
    CHECK(result.code == row.code);
    CHECK(result.out.starts_with("FAIL: ") == (row.code == 1 || row.flags.size() == 3));
  }
}

TEST_CASE("a card that no longer holds is told and counts") {
  WorkingFolder folder;
  folder.Write("old.onnxtxt", OneLayer(100));
  folder.Write("large.onnxtxt", OneLayer(4'000'000));
  const CommandResult result = RunCommand({"diff", "old.onnxtxt", "large.onnxtxt", "--gpu", "t4"});
  CHECK(result.code == 0);
  CHECK(result.out.find("FITS on t4") != std::string::npos);
  const CommandResult small =
      RunCommand({"diff", "old.onnxtxt", "large.onnxtxt", "--memory", "4GiB", "--overhead", "0"});
  CHECK(small.code == 1);
  CHECK(small.out.find("OOM on 4.00 GiB") != std::string::npos);
  CHECK(small.out.find("was FITS before") != std::string::npos);
}

TEST_CASE("diff wants two sides and one run") {
  struct Row {
    std::vector<std::string> args;
    const char* error;
  };
  const Row rows[] = {
      {{"diff", "a.onnx"}, "error: expected two files, the old one first, found 1"},
      {{"diff", "a", "b", "c"}, "error: expected two files, the old one first, found 3"},
      {{"diff", "a", "b", "-b", "1,2"}, "error: --batch: expected one value with diff, found 2"},
      {{"diff", "a", "b", "--update"},
       "error: --update: expected with check alone, found with diff"},
      {{"check", "--fail-above", "1"},
       "error: --fail-above: expected with diff alone, found with check"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = RunCommand(row.args);
    CHECK(result.code == 2);
    CHECK(result.err.starts_with(row.error));
  }
}

}  // namespace onnxfit::diff_command_test
