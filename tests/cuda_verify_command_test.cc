// `onnxfit verify` from its flags to its exit code, on a CUDA runtime that lives on the host.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "benchmarks/cuda/on_host/host_cuda.h"
#include "estimator/base/bytes.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::cuda_verify_command_test {
namespace {

using Args = std::vector<std::string>;

// The card is left clean, whatever happens.
class VerifyTest {
 public:
  VerifyTest() { TheHostCuda() = {}; }
  ~VerifyTest() { CHECK(TheHostCuda().held_bytes == 0); }
};

CommandResult Lenet(Args more) {
  Args args = {"verify", std::string(kSourceDir) + "/models/lenet.onnxtxt"};
  args.insert(args.end(), more.begin(), more.end());
  return RunCommand(args);
}

// Only so much is left for tensors.
void LeaveFree(int64_t bytes) {
  HostDevice& card = TheHostCuda().devices[0];
  card.others_bytes = card.total_bytes - TheHostCuda().context_bytes - bytes;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n') + 1); }

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE_FIXTURE(VerifyTest, "what was predicted stands beside what the card did") {
  const CommandResult result = Lenet({"-b", "64", "--ascii"});
  CHECK(result.code == 0);
  CHECK(result.err == "");
  const std::string model = std::string(kSourceDir) + "/models/lenet.onnxtxt";
  CHECK(FirstLine(result.out) ==
        "PASS on NVIDIA GeForce RTX 3060: 26.0 MiB at the peak of 10 steps, to the byte\n");
  CHECK(Has(result.out, R"(
  beyond the context    predicted  measured  difference
  after setup            2.00 MiB  2.00 MiB        same
  peak of steps 1-10     26.0 MiB  26.0 MiB        same
  reserved - allocated   3.86 MiB  3.86 MiB        same
)"));
  CHECK(Has(result.out,
            "  - in 31 of 31 phases the card lost what the allocator was predicted to\n"
            "    reserve, to the byte\n"));
  CHECK(Has(result.out, ": none changed\n"));
  CHECK(Has(result.out, "NVIDIA GeForce RTX 3060, CUDA 1"));
}

TEST_CASE_FIXTURE(VerifyTest, "all formats have the terms") {
  CHECK(Has(Lenet({"--format", "json"}).out, R"("proof": "pass")"));
  CHECK(Has(Lenet({"--format", "json"}).out, R"("exact_phases": 31)"));
  CHECK(Has(Lenet({"--format", "markdown"}).out, "| after setup | 2.00 MiB | 2.00 MiB | same |"));
  CHECK(Has(Lenet({"--format", "csv"}).out,
            "what,predicted_bytes,measured_bytes,holds\nafter setup,2097152,2097152,true\n"));
  CHECK(Lenet({"-q"}).out == FirstLine(Lenet({}).out));
}

TEST_CASE_FIXTURE(VerifyTest, "a full card is an answer with exit code 1") {
  LeaveFree(12 * kMiB);
  const CommandResult result = Lenet({"-b", "64"});
  CHECK(result.code == 1);
  CHECK(FirstLine(result.out).starts_with("OOM on NVIDIA GeForce RTX 3060: step 1: "));
  CHECK(Has(result.out, "as predicted"));
  CHECK(Lenet({"-b", "64", "--exit-zero"}).code == 0);
}

TEST_CASE_FIXTURE(VerifyTest, "memory that does not hold what was written fails") {
  TheHostCuda().scribbles_at = 12;
  const CommandResult result = Lenet({});
  CHECK(result.code == 1);
  CHECK(FirstLine(result.out) ==
        "FAIL on NVIDIA GeForce RTX 3060: 5 B did not hold what was written\n");
}

TEST_CASE_FIXTURE(VerifyTest, "segments that grow are mapped page by page") {
  const CommandResult result = Lenet({"--alloc-conf", "expandable_segments:True"});
  CHECK(result.code == 0);
  CHECK(Has(result.out, "to the byte"));
}

TEST_CASE_FIXTURE(VerifyTest, "the largest batch is found by carrying batches out") {
  LeaveFree(40 * kMiB);
  const CommandResult result = Lenet({"--max-batch"});
  CHECK(result.code == 0);
  CHECK(Has(FirstLine(result.out), " runs, "));
  CHECK(Has(FirstLine(result.out), " predicted\n"));
  CHECK(Has(Lenet({"--max-batch", "--format", "json"}).out, R"("predicted_max_batch": )"));
  CHECK(Has(Lenet({"--max-batch", "--format", "csv"}).out, "batch,runs,fails_in_step"));

  LeaveFree(10 * kMiB);
  const CommandResult none = Lenet({"--max-batch"});
  CHECK(none.code == 1);
  CHECK(FirstLine(none.out) ==
        "batch 0 on NVIDIA GeForce RTX 3060: not even one sample runs, 0 predicted\n");
}

TEST_CASE_FIXTURE(VerifyTest, "Ctrl-C gives all back and says how far it came") {
  TheHostCuda().interrupts_at = 200;
  const CommandResult result = Lenet({});
  CHECK(result.code == 130);
  CHECK(Has(FirstLine(result.out), "STOPPED on NVIDIA GeForce RTX 3060: after "));
}

TEST_CASE_FIXTURE(VerifyTest, "without a card there is one sentence and exit code 3") {
  TheHostCuda().devices.clear();
  const CommandResult result = Lenet({});
  CHECK(result.code == 3);
  CHECK(result.out == "");
  CHECK(result.err == "error: no usable GPU: no CUDA-capable device is detected\n");

  TheHostCuda().devices.resize(1);
  CHECK(Lenet({"--device", "1"}).code == 3);
}

TEST_CASE_FIXTURE(VerifyTest, "what cannot be meant is refused before the card is asked") {
  struct Row {
    Args args;
    const char* error;
  };
  const Row rows[] = {
      {{"-b", "8,16"}, "--batch: expected one value with verify, found 2"},
      {{"--max-batch", "-b", "8"}, "--max-batch: looks for the batch: expected no --batch"},
      {{"--tolerance", "2MiB"}, "--tolerance: expected a share from 0 to 100%, such as 5%, found"},
      {{"--tolerance", "five"}, "--tolerance: "},
      {{"--tolerance", "5"}, "--tolerance: expected a share from 0 to 100%, such as 5%, found '5'"},
      {{"--steps", "0"}, "--steps: "},
      {{"--save", "--calibration", "/nowhere/c.json"},
       "/nowhere/c.json: --calibration: there is no such folder"},
      {{"--device", "-1"}, "--device: "},
      {{"--gpu", "t4"},
       "--gpu: expected with estimate, max-batch, diff, explain-oom, report, annotate or run, "
       "found with verify"},
  };
  TheHostCuda().devices.clear();  // asking it would be exit code 3
  for (const Row& row : rows) {
    CAPTURE(row.error);
    const CommandResult result = Lenet(row.args);
    CHECK(result.code == 2);
    CHECK(Has(result.err, row.error));
  }
}

}  // namespace onnxfit::cuda_verify_command_test
