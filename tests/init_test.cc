#include <doctest/doctest.h>

#include <filesystem>

#include "cli/check_config.h"
#include "cli/commands.h"
#include "cli/model_files.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"
#include "tests/files.h"
#include "tests/onnx_bytes.h"
#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::init_test {
namespace {

namespace fs = std::filesystem;

// A float32 input [batch, tokens, 4], whose first two dimensions have those names.
std::string FreeInput(std::string_view batch, std::string_view tokens) {
  using bytes::Bytes;
  using bytes::Number;
  const std::string shape =
      Bytes(1, Bytes(2, batch)) + Bytes(1, Bytes(2, tokens)) + Bytes(1, Number(1, 4));
  const std::string type = Bytes(1, Number(1, 1) + Bytes(2, shape));
  return Bytes(11, Bytes(1, "x") + Bytes(2, type));
}

std::string Floats(const std::vector<int64_t>& dims, size_t count) {
  return bytes::Tensor(1, dims, bytes::Bytes(9, std::string(4 * count, '\1')));
}

// y = (x + positions) @ w; `positions` fix the number of tokens.
std::string Network(std::string_view tokens, int64_t positions) {
  return bytes::Model(bytes::Node("Add", {"x", "p"}, {"h"}) +
                      bytes::Node("MatMul", {"h", "w"}, {"y"}) + FreeInput("n", tokens) +
                      bytes::Output("y") +
                      bytes::Initializer("p", Floats({positions, 4}, 4 * size_t(positions))) +
                      bytes::Initializer("w", Floats({4, 2}, 8)));
}

// The part of onnxfit.toml that begins with the first check or model left out.
std::string ChecksIn(const std::string& folder) {
  const std::string text = ContentsOf(folder + "/onnxfit.toml");
  return text.substr(text.find("# budget = \"t4\"\n") + 16);
}

}  // namespace

TEST_CASE("every check that init writes for the models here has an answer") {
  const TempFolder folder;
  fs::copy(std::string(kSourceDir) + "/models", folder.Path("models"));
  const CommandResult outcome = RunCommand({"init", folder.Path("")});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  size_t models = 0;
  for (const auto& entry : fs::directory_iterator(folder.Path("models"))) {
    models += entry.path().extension() == ".onnx" ? 1 : 0;
  }
  const CheckConfig config = ReadCheckConfig(folder.Path("onnxfit.toml"));
  CHECK(models > 5);
  CHECK(config.checks.size() == models);
  for (const Check& check : config.checks) {
    CAPTURE(check.name);
    CHECK(check.error.empty());
    CHECK(MakeEstimate(LoadGraph(check.model), check.request).device_bytes > 0);
  }
}

TEST_CASE("what init writes") {
  const TempFolder folder;
  fs::create_directories(folder.Path("a"));
  fs::create_directories(folder.Path("b"));
  folder.Write("a/bert.onnx", Network("seq", 1));
  folder.Write("a/net.onnx", Network("number of tokens", 64));
  folder.Write("b/never.onnx", Network("seq", 77));
  folder.Write("b/net.onnx", "no model, but text\n");
  folder.Write("b/say \"x\".onnx",
               bytes::Model(bytes::Node("MatMul", {"x", "w"}, {"y"}) + bytes::Input("x", {8, 4}) +
                            bytes::Output("y") + bytes::Initializer("w", Floats({4, 2}, 8))));
  const CommandResult outcome = RunCommand({"init", folder.Path("")});
  CHECK(outcome.code == 0);
  CHECK(outcome.out == folder.Path("onnxfit.toml") +
                           ": 3 checks, 2 models left out (it says why)\nnext: write there what "
                           "you train with, then onnxfit check " +
                           folder.Path("onnxfit.toml") + " --update\n");
  CHECK(ChecksIn(folder.Path("")) == R"(
[[check]]
name = "bert"
model = "a/bert.onnx"
batch = 1
dims = { seq = 128 }  # left free by the file: set yours

[[check]]
name = "a/net"
model = "a/net.onnx"
batch = 1
dims = { "number of tokens" = 64 }  # left free by the file: set yours

# Left out: an ONNX model was expected, found text (try: an .onnx file; ONNX's
# text form needs the ending .onnxtxt)
# [[check]]
# name = "b/net"
# model = "b/net.onnx"

# Left out: input 'x': dimension 1 ('seq') is 128, expected 77: node 'Add #0':
# float32[1, 128, 4] and float32[77, 4] cannot be broadcast: 128 beside 77, as
# 'p' has (try: --dim seq=77)
# [[check]]
# name = "never"
# model = "b/never.onnx"

[[check]]
name = "say \"x\""
model = "b/say \"x\".onnx"
batch = 8
)");
  const CheckConfig config = ReadCheckConfig(folder.Path("onnxfit.toml"));
  REQUIRE(config.checks.size() == 3);
  CHECK(config.checks[1].request.binding.dims ==
        std::map<std::string, int64_t>{{"number of tokens", 64}});
  CHECK(config.checks[2].model == folder.Path("b/say \"x\".onnx"));
  for (const Check& check : config.checks) {
    CAPTURE(check.name);
    CHECK(check.error.empty());
    CHECK(MakeEstimate(LoadGraph(check.model), check.request).device_bytes > 0);
  }
}

TEST_CASE("two files whose names differ in their ends alone are two checks") {
  const TempFolder folder;
  folder.Write("a.onnx", Network("seq", 1));
  folder.Write("a.pt2", "no archive");
  CHECK(RunCommand({"init", folder.Path("")}).code == 0);
  const std::string text = ChecksIn(folder.Path(""));
  CHECK(text.find("\nname = \"a.onnx\"\n") != std::string::npos);
  CHECK(text.find("\n# name = \"a.pt2\"\n") != std::string::npos);
}

TEST_CASE("a name that TOML cannot have is left out") {
  const TempFolder folder;
  folder.Write("\xff.onnx", Network("seq", 1));
  CHECK(RunCommand({"init", folder.Path("")}).code == 0);
  CHECK(ChecksIn(folder.Path("")) == R"(
# Left out: its path is not UTF-8, as TOML is (try: another name)
# [[check]]
# name = "�"
# model = "�.onnx"
)");
}

TEST_CASE("init writes over nothing unless it is told to") {
  const TempFolder folder;
  folder.Write("a.onnx", Network("seq", 1));
  const std::string path = folder.Write("onnxfit.toml", "mine");
  const CommandResult refused = RunCommand({"init", folder.Path("")});
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err == "error: " + path + ": the file exists (try: --force)\n");
  CHECK(ContentsOf(path) == "mine");
  CHECK(RunCommand({"init", folder.Path(""), "--force"}).code == 0);
  const std::string once = ContentsOf(path);
  CHECK(ReadCheckConfig(path).checks.size() == 1);
  CHECK(RunCommand({"init", folder.Path(""), "--force", "-q"}).out == path + ": 1 check\n");
  CHECK(ContentsOf(path) == once);
}

TEST_CASE("init without a folder is about the current one") {
  const TempFolder folder;
  folder.Write("a.onnx", Network("seq", 1));
  const fs::path before = fs::current_path();
  fs::current_path(folder.Path(""));
  const CommandResult outcome = RunCommand({"init"});
  const CheckConfig config = ReadCheckConfig("onnxfit.toml");
  fs::current_path(before);
  CHECK(outcome.out ==
        "onnxfit.toml: 1 check\nnext: write there what you train with, then onnxfit check "
        "--update\n");
  CHECK(config.checks.at(0).model == "a.onnx");
}

TEST_CASE("what init refuses") {
  const TempFolder folder;
  const std::string file = folder.Write("a.txt", "x");
  struct Row {
    std::vector<std::string> args;
    std::string error;
  };
  const Row rows[] = {
      {{"init", folder.Path("")},
       folder.Path("") +
           ": expected .onnx or .pt2 files here or below, found none (try: of a model that is "
           "Python write the check by hand: model = \"MODULE:FUNCTION\")"},
      {{"init", file}, file + ": expected a folder, found none"},
      {{"init", "a", "b"}, "expected one folder, found 'a' and 'b'"},
      {{"init", "-b", "3"},
       "--batch: expected with estimate, verify, diff, explain-oom, report or annotate, found with "
       "init"},
      {{"init", "-f", "json"},
       "--format: expected with estimate, max-batch, verify, check, diff, explain-oom, gpus or "
       "run, "
       "found "
       "with init"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult outcome = RunCommand(row.args);
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "error: " + row.error + "\n");
  }
}

TEST_CASE("the dimensions that a file leaves free, in the order of its inputs") {
  const auto free = [](const char* text) { return FreeDims(ParseGraph(text)); };
  CHECK(free("g (float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }").empty());
  CHECK(free("g (float[N, seq, 4] x, float[N, other] z) => (float[N, seq, 4] y) { y = Relu(x) }") ==
        std::vector<std::string>{"N", "seq", "other"});
}

}  // namespace onnxfit::init_test
