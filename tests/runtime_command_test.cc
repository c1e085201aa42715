#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/run_command.h"
#include "tests/temp_folder.h"

namespace onnxfit::runtime_command_test {
namespace {

using Args = std::vector<std::string>;

const std::string kModel = std::string(kSourceDir) + "/models/resnet50.train.onnx";

CommandResult OnRuntime(Args more) {
  Args args = {kModel, "--runtime", "onnxruntime", "-b", "8"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

// In the place of a Python with onnxruntime: it uses the card, and answers so, if it is asked for
// `asked`.
class Answering {
 public:
  explicit Answering(const std::string& answer, const std::string& asked = "{") {
    const std::string program = folder_.Write(
        "python", fmt::format("#!/bin/sh\ngrep -q '{}' \"$3\" || exit 1\ncat > \"$4\" <<'END'\n"
                              "{}\nEND\nexec {} take 1\n",
                              asked, answer, ABSENT_CLIENT));
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    setenv("ONNXFIT_PYTHON", program.c_str(), /*overwrite=*/1);
  }
  ~Answering() { unsetenv("ONNXFIT_PYTHON"); }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

 private:
  TempFolder folder_;
};

// Two weights of 3 and 5 MiB, and two runs with one value of 2 MiB.  With 3 MiB first the arena's
// regions are 4, 8 and 8 MiB, as what they leave is not split off; with 5 first 8 and 8, of which
// the second has room for the value, too.
constexpr const char* kTwoWeights = R"({"version": "1.31.1", "context": 1000, "sessions": [
    {"used": [12582912, 12582912, 12582912], "extensions": [[4194304, 8388608], [], []]}],
  "requests": {"weights": [3145728, 5242880], "runs": [[2097152, -3], [2097152, -4]]}})";

nlohmann::json AnswerTo(const Args& more) {
  Args args = {"-f", "json"};
  args.insert(args.end(), more.begin(), more.end());
  return nlohmann::json::parse(OnRuntime(args).out);
}

}  // namespace

TEST_CASE("orders of the weights are played") {
  const Answering python(kTwoWeights);
  const auto json = AnswerTo({"-g", "t4"});
  const auto& run = json["runs"][0];
  CHECK(json["runtime"] == "ONNX Runtime 1.31.1");
  CHECK(run["weight_bytes"] == 8 << 20);
  CHECK(run["most_bytes"] == 10 << 20);
  CHECK(run["orders"] == 200);
  CHECK(run["arena_low_bytes"] == 16 << 20);
  CHECK(run["arena_high_bytes"] == 20 << 20);
  CHECK(json["targets"][0]["verdict"] == "fits");
}

TEST_CASE("inputs lie on the host, or are bound to the card") {
  for (const bool is_bound : {false, true}) {
    const Answering python(kTwoWeights, fmt::format("\"bound\": {}", is_bound));
    const Args args = is_bound ? Args{"-g", "t4", "--io-binding"} : Args{"-g", "t4"};
    const CommandResult result = OnRuntime(args);
    CHECK(result.code == 0);
    const std::string where = is_bound ? "zeros on the card" : "zeros on the host";
    CHECK(result.out.find(where) != std::string::npos);
  }
}

TEST_CASE("what settings make of it is played, unless some are given") {
  const Answering python(kTwoWeights);
  const auto settings = AnswerTo({"-g", "t4"})["runs"][0]["settings"];
  REQUIRE(settings.size() == 3);
  CHECK(settings[1]["flag"] == "--provider-option arena_extend_strategy=kSameAsRequested");
  CHECK(settings[1]["high_bytes"] == 12 << 20);  // pages of 4, 6 and 2 MiB
  const auto given = AnswerTo({"-g", "t4", "--session", "enable_mem_pattern=0"})["runs"][0];
  CHECK(given["settings"].empty());
}

TEST_CASE("weights outside of the arena take the same of it in each order") {
  const Answering python(R"({"version": "1.31.1", "context": 1000, "sessions": [
    {"used": [12582912], "extensions": [[8388608, 2097152]], "reserved": 8388608}],
  "requests": {"weights": [3145728, 5242880], "runs": [[2097152, -3]]}})");
  const auto run = AnswerTo({"-g", "t4"})["runs"][0];
  CHECK(run["arena_low_bytes"] == 10 << 20);
  CHECK(run["arena_high_bytes"] == 10 << 20);
}

TEST_CASE("an order that finds no room decides") {
  const Answering python(kTwoWeights);
  const CommandResult result = OnRuntime({"--memory", "10MiB", "--overhead", "0"});
  CHECK(result.code == 1);
  CHECK(result.out.find("orders of the weights find no room") != std::string::npos);
}

TEST_CASE("what ONNX Runtime says of the file is an error") {
  const Answering python(R"({"version": "1.31.1", "context": 1, "sessions": [
    {"used": [], "extensions": [], "error": "Type Error: no such operator"}]})");
  const CommandResult result = OnRuntime({"-g", "t4"});
  CHECK(result.code == 2);
  CHECK(result.err.find("Type Error: no such operator") != std::string::npos);
}

TEST_CASE("without a pattern each run asks as the first of its shape") {
  // Of two shapes, with values of 2 and 6 MiB; their second runs ask for a pattern's 9 MiB.
  const Answering python(R"({"version": "1.31.1", "context": 1000, "sessions": [
    {"used": [8388608], "extensions": [[8388608], [], [], [], []]}],
  "requests": {"weights": [4194304], "runs": [[2097152, -2], [9437184, -3], [6291456, -4],
    [9437184, -5]]}})");
  const auto run = AnswerTo({"-g", "t4"})["runs"][0];
  CHECK(run["most_bytes"] == 13 << 20);
  CHECK(run["settings"][2]["flag"] == "--session enable_mem_pattern=0");
  CHECK(run["settings"][2]["high_bytes"] == 16 << 20);  // regions of 4, 4 and 8 MiB
}

TEST_CASE("each size that is named is a shape of the same session") {
  const Answering python(kTwoWeights);
  const auto json = nlohmann::json::parse(
      RunCommand({kModel, "--runtime", "onnxruntime", "-b", "1,8", "-g", "t4", "-f", "json"}).out);
  CHECK(json["shapes"] == nlohmann::json({"batch 1", "batch 8"}));
}

TEST_CASE("the largest batch is found by running sessions") {
  // A value of 256 MiB a sample, read off the inputs that are asked for.
  const TempFolder folder;
  const std::string program = folder.Write(
      "python",
      fmt::format("#!/bin/sh\n"
                  "batch=$(tr -d ' \\n' < \"$3\" | sed 's/.*\"dims\":\\[\\([0-9]*\\).*/\\1/')\n"
                  "value=$((batch * 268435456))\n"
                  "cat > \"$4\" <<END\n"
                  "{{\"version\": \"1\", \"context\": 1000, \"sessions\": [{{\"used\": [0], "
                  "\"extensions\": [[]]}}], \"requests\": {{\"weights\": [256], \"runs\": "
                  "[[$value, -2]]}}}}\nEND\nexec {} take 1\n",
                  ABSENT_CLIENT));
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("ONNXFIT_PYTHON", program.c_str(), /*overwrite=*/1);
  const CommandResult result = RunCommand(
      {"max-batch", kModel, "--runtime", "onnxruntime", "--memory", "8GiB", "--overhead", "0", "-f",
       "json", "--provider-option", "arena_extend_strategy=kSameAsRequested"});
  unsetenv("ONNXFIT_PYTHON");
  REQUIRE(result.code == 0);
  const auto target = nlohmann::json::parse(result.out)["targets"][0];
  CHECK(target["max_batch"] == 31);  // and the weight's own page, which leaves no room for 32
  CHECK(target["fails"] == 32);
  CHECK(target["run"]["most_bytes"] == (int64_t{31} << 28) + 256);
}

TEST_CASE("what --runtime does not go with") {
  struct Row {
    Args flags;
    const char* error;
  };
  const Row rows[] = {
      {{"-g", "t4", "-o", "sgd"}, "--optimizer: expected without --runtime onnxruntime"},
      {{}, "--runtime onnxruntime: expected a card, found none (try: --gpu t4)"},
      {{"-g", "t4", "-f", "csv"}, "--format: expected text or json beside --runtime onnxruntime"},
      {{"-g", "t4", "--session", "x"}, "--session: expected KEY=VALUE"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = OnRuntime(row.flags);
    CHECK(result.code == 2);
    CHECK(result.err.find(row.error) != std::string::npos);
  }
}

TEST_CASE("a Python without onnxruntime is told how to get it") {
  const TempFolder folder;
  const std::string program =
      folder.Write("python", "#!/bin/sh\necho '{\"missing\": \"onnxruntime\"}' > \"$4\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  setenv("ONNXFIT_PYTHON", program.c_str(), /*overwrite=*/1);
  const CommandResult result = OnRuntime({"-g", "t4"});
  unsetenv("ONNXFIT_PYTHON");
  CHECK(result.code == 2);
  CHECK(result.err.find("expected onnxruntime with its CUDA provider, found none") !=
        std::string::npos);
}

}  // namespace onnxfit::runtime_command_test
