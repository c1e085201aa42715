// estimate and max-batch with --runtime onnxruntime --provider cpu.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fake_python.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::host_command_test {
namespace {

using Args = std::vector<std::string>;

const std::string kModel = std::string(kSourceDir) + "/models/resnet50.train.onnx";

Args OnCpu(Args more) {
  more.insert(more.begin(), {kModel, "--runtime", "onnxruntime", "--provider", "cpu"});
  return more;
}

std::string Answer(const std::string& json) {
  return fmt::format("cat > \"$4\" <<'END'\n{}\nEND\n", json);
}

// 40 MiB before the session, 240 when it was made, 900 in its second run, of which 30 of files; 100
// of weights may be read yet.
const std::string kOneSession = Answer(R"({"sessions": [{"version": "1.31.1", "unread": 104857600,
    "phases": [[41943040, 41943040, 20971520], [262144000, 251658240, 31457280],
               [838860800, 838860800, 31457280], [943718400, 943718400, 31457280]]}],
  "settings": [{"flag": "--session enable_mem_pattern=0", "version": "1.31.1", "unread": 0,
    "phases": [[41943040, 41943040, 0], [733061120, 733061120, 0]]}]})");

}  // namespace

TEST_CASE("what a session on the CPU has, and what a setting makes of it") {
  const FakePython python(kOneSession);
  const CommandResult result = RunCommand(OnCpu({"-b", "8"}));
  CHECK(result.code == 0);
  CHECK(result.out ==
        "1000.0 MiB of RAM (900.0–1000.0 MiB)\n"
        "\n"
        "ONNX Runtime 1.31.1, the most of 1 session    at most  at its end  of files\n"
        "  before it, with Python and numpy           40.0 MiB    40.0 MiB  20.0 MiB\n"
        "  session made                              250.0 MiB   240.0 MiB  30.0 MiB\n"
        "  run 1                                     800.0 MiB   800.0 MiB  30.0 MiB\n"
        "  run 2                                     900.0 MiB   900.0 MiB  30.0 MiB\n"
        "  weights that runs may read yet            100.0 MiB\n"
        "\n"
        "What settings make of it, each run alone\n"
        "  699.1 MiB  --session enable_mem_pattern=0\n"
        "\n"
        "What stays open\n"
        "  - inputs are zeros: sizes that follow from their values are those of zeros\n"
        "  - it ran with as many threads as this machine has cores, on its kind of\n"
        "    processor: --session intra_op_num_threads=N for another number\n"
        "  - a program that is not Python has less before its session\n");
}

TEST_CASE("the verdict is by the machine's RAM") {
  struct Row {
    const char* ram;
    int code;
    const char* line;
  };
  const Row rows[] = {
      {"2GiB", 0, "FITS on 2.00 GiB of RAM: 1000.0 MiB of 2.00 GiB, 48.8% (900.0–1000.0 MiB)\n"},
      {"1GiB", 0,
       "TIGHT on 1.00 GiB of RAM: 1000.0 MiB of 1.00 GiB, 97.7% (900.0–1000.0 MiB)\n"
       "  - less than 5% is left for the system and what else runs there\n"},
      // 870 MiB are no pages of files.
      {"880MiB", 0, "TIGHT on 880.0 MiB of RAM: 1000.0 MiB of 880.0 MiB, 113.6%"},
      {"860MiB", 1,
       "OOM on 860.0 MiB of RAM: 1000.0 MiB of 860.0 MiB, 116.3% (900.0–1000.0 MiB)\n"
       "  - 870.0 MiB of it stay in RAM: only pages of files can be read again\n"},
  };
  const FakePython python(kOneSession);
  for (const Row& row : rows) {
    CAPTURE(row.ram);
    const CommandResult result = RunCommand(OnCpu({"-b", "8", "--ram", row.ram}));
    CHECK(result.code == row.code);
    CHECK(result.out.starts_with(row.line));
  }
}

TEST_CASE("the most of several sessions counts") {
  const FakePython python(Answer(R"({"sessions": [
    {"version": "1", "phases": [[1048576, 1048576, 0], [3145728, 3145728, 0]]},
    {"version": "1", "phases": [[1048576, 1048576, 0], [5242880, 4194304, 0]]}], "settings": []})"));
  const CommandResult result = RunCommand(OnCpu({"-f", "json", "--ram", "1GiB"}));
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["provider"] == "cpu");
  CHECK(json["host"]["bytes"] == 5 << 20);
  CHECK(json["host"]["least_bytes"] == 3 << 20);
  CHECK(json["host"]["limit_bytes"] == 1 << 30);
  CHECK(json["host"]["verdict"] == "fits");
  CHECK(json["sessions"].size() == 2);
}

TEST_CASE("the largest batch is found by running sessions on the CPU") {
  // 256 MiB a sample, read off the inputs that are asked for.
  const FakePython python(
      "batch=$(tr -d ' \\n' < \"$3\" | sed 's/.*\"dims\":\\[\\([0-9]*\\).*/\\1/')\n"
      "peak=$((batch * 268435456))\n"
      "cat > \"$4\" <<END\n"
      "{\"sessions\": [{\"version\": \"1\", \"phases\": [[$peak, $peak, 0]]}], \"settings\": []}\n"
      "END\n");
  Args args = OnCpu({"--ram", "8GiB", "-f", "json"});
  args.insert(args.begin(), "max-batch");
  const CommandResult result = RunCommand(args);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  CHECK(json["max_batch"] == 32);
  CHECK(json["max_batch_fits"] == 30);
  CHECK(json["fails"] == 33);
}

TEST_CASE("what a session on the CPU does not go with") {
  struct Row {
    Args flags;
    const char* error;
  };
  const Row rows[] = {
      {OnCpu({"-g", "t4"}),
       "--gpu: expected without --provider cpu, which uses no card, but RAM (--ram)"},
      {OnCpu({"--io-binding"}), "--io-binding: expected without --provider cpu"},
      {{kModel, "--runtime", "onnxruntime", "-g", "t4", "--ram", "8GiB"},
       "--ram: expected with a session on the CPU (--provider cpu)"},
      {{kModel, "-g", "t4", "--ram", "8GiB"}, "--ram: expected beside --runtime, which is missing"},
      {{kModel, "-g", "t4", "--provider", "cpu"},
       "--provider: expected beside --runtime, which is missing"},
      {{kModel, "-g", "t4", "--session", "a=b"}, "--session: expected beside --runtime"},
      {OnCpu({"--ram", "0"}), "--ram: expected a size above 0, such as 12.7GB"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = RunCommand(row.flags);
    CHECK(result.code == 2);
    CHECK(result.err.find(row.error) != std::string::npos);
  }
  Args search = OnCpu({});
  search.insert(search.begin(), "max-batch");
  const std::string error = RunCommand(search).err;
  CHECK(error.find("expected how much RAM there is (--ram), found none") != std::string::npos);
}

TEST_CASE("a session that this machine has no room for is OOM on a smaller one") {
  // The second of them.
  const FakePython python(Answer(R"({"sessions": [{"version": "1", "phases": [[1, 1, 0]]},
    {"error": "the system ended it", "machine": 8589934592, "phases": []}], "settings": []})"));
  const CommandResult smaller = RunCommand(OnCpu({"--ram", "4GiB"}));
  CHECK(smaller.code == 1);
  CHECK(smaller.out.starts_with("OOM on 4.00 GiB of RAM: 8.00 GiB of 4.00 GiB, 200.0%\n"));
  CHECK(smaller.out.find("the system ended a session") != std::string::npos);
  CHECK(RunCommand(OnCpu({"--ram", "16GiB"})).code == 2);
  CHECK(RunCommand(OnCpu({})).code == 2);
}

TEST_CASE("a setting whose session fails is told so") {
  const FakePython python(Answer(R"({"sessions": [{"version": "1", "phases": [[1048576, 1, 0]]}],
    "settings": [{"flag": "--session x=1", "error": "no", "phases": []}]})"));
  CHECK(RunCommand(OnCpu({})).out.find("  fails  --session x=1\n") != std::string::npos);
  CHECK(nlohmann::json::parse(RunCommand(OnCpu({"-f", "json"})).out)["settings"].empty());
}

TEST_CASE("what ends a session on the CPU is told") {
  struct Row {
    const char* answer;
    const char* error;
  };
  const Row rows[] = {
      {R"({"sessions": [{"missing": "ModuleNotFoundError: onnxruntime", "phases": []}],
           "settings": []})",
       "expected onnxruntime with its CPU provider, found ModuleNotFoundError: onnxruntime"},
      {R"({"sessions": [{"error": "the system ended it", "machine": 8589934592, "phases": []}], "settings": []})",
       "expected RAM to run it in, found 8.00 GiB, and the system ended it"},
      {R"({"sessions": [{"version": "1.31.1", "error": "Fail: no kernel", "phases": []}],
           "settings": []})",
       "expected a session of ONNX Runtime 1.31.1, found: Fail: no kernel"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const FakePython python(Answer(row.answer));
    const CommandResult result = RunCommand(OnCpu({}));
    CHECK(result.code == 2);
    CHECK(result.err.find(row.error) != std::string::npos);
  }
  const FakePython silent("echo 'no numpy here' >&2; exit 1\n");
  CHECK(RunCommand(OnCpu({})).err.find("found: no numpy here") != std::string::npos);
}

}  // namespace onnxfit::host_command_test
