// The cards of this machine: `onnxfit gpus --detect` and --gpu auto.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/targets.h"
#include "estimator/base/bytes.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/fit/target.h"
#include "estimator/report/gpus.h"
#include "tests/lines.h"
#include "tests/parsed_options.h"
#include "tests/paths.h"
#include "tests/run_command.h"

namespace onnxfit::detect_test {
namespace {

// A card of the table, busy.
DetectedGpu T4() {
  return {.name = "Tesla T4",
          .compute_capability = 75,
          .multiprocessors = 40,
          .threads_per_multiprocessor = 1024,
          .total_bytes = 15000 * kMiB,
          .free_bytes = 12900 * kMiB,
          .smi_bytes = 15360 * kMiB,
          .driver = "580.65.06",
          .cuda_driver = 13010,
          .cuda_runtime = 13000,
          .process_bytes = 100 * kMiB,
          .others = {{4711, "python", 1984 * kMiB}, {900, "Xorg", 16 * kMiB}}};
}

// One that the table lacks, of which the driver tells nothing.
DetectedGpu Unknown() {
  return {.index = 1,
          .name = "NVIDIA GeForce RTX 6050 Laptop GPU",
          .compute_capability = 130,
          .multiprocessors = 20,
          .threads_per_multiprocessor = 1536,
          .total_bytes = 7806 * kMiB,
          .free_bytes = 7700 * kMiB,
          .cuda_driver = 13010,
          .cuda_runtime = 13000};
}

// One that somebody else has for himself.
DetectedGpu Taken() {
  DetectedGpu gpu = T4();
  gpu.index = 2;
  gpu.free_bytes = 0;
  gpu.process_bytes.reset();
  gpu.others = {{12, "", std::nullopt}};
  gpu.why_unusable =
      "CUDA gives this process no context: CUDA-capable device(s) is/are busy or unavailable";
  return gpu;
}

std::vector<CardAtHand> LookedUp(const std::vector<DetectedGpu>& gpus) {
  std::vector<CardAtHand> cards;
  for (const DetectedGpu& gpu : gpus) cards.push_back(LookUp(gpu));
  return cards;
}

// The targets of a command line on a machine with `gpus`; how often they were looked for.
struct Found {
  std::vector<Target> targets;
  int searches = 0;
};

Found TargetsOf(const Args& args, const std::vector<DetectedGpu>& gpus) {
  Found found;
  Options options = Parse(args);
  SetTargets(options, [&]() -> GpuSearch {
    ++found.searches;
    return {.gpus = gpus, .why_none = gpus.empty() ? "no usable GPU: none" : ""};
  });
  found.targets = options.request.targets;
  return found;
}

std::string NoGpuOf(const std::vector<DetectedGpu>& gpus) {
  try {
    TargetsOf({"m.onnx", "--gpu", "auto"}, gpus);
  } catch (const NoGpuError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("cards at hand are told with what can be had of them, by whom, and their rows") {
  CHECK(ToText(LookedUp({T4(), Unknown(), Taken()})) == R"(3 GPUs at hand

GPU  name                           CC  SMs    memory      free  driver     CUDA
  0  Tesla T4                      7.5   40  14.6 GiB  12.6 GiB  580.65.06  13.1
  1  GeForce RTX 6050 Laptop GPU  13.0   20  7.62 GiB  7.52 GiB  ?          13.1
  2  Tesla T4                      7.5   40  14.6 GiB         ?  580.65.06  13.1

GPU 0
  usable    12.7 GiB for a process, 136.0 MiB of that its context (measured);
            1.95 GiB go to the other processes (python, Xorg) first (measured)
  others    python (pid 4711) 1.94 GiB, Xorg (pid 900) 16.0 MiB
  table     its row is t4, with 14.6 GiB of memory
  row       {"t4", "Tesla T4", "datacenter", "GDDR6", 16, 75, 40, 15000, 0,
            15360},

GPU 1
  usable    7.62 GiB for a process, 115.0 MiB of that its context (assumed)
  others    the driver does not tell
  table     no row has its name: its context is a guess
  row       {"rtx6050-laptop", "GeForce RTX 6050 Laptop", "?", "?", 8, 130, 20,
            7806},

GPU 2
  unusable  CUDA gives this process no context: CUDA-capable device(s) is/are
            busy or unavailable
  others    one without a name (pid 12) of unknown size
  table     its row is t4, with 14.6 GiB of memory
  row       {"t4", "Tesla T4", "datacenter", "GDDR6", 16, 75, 40, 15000, 0,
            15360},

memory, free: what CUDA shows, with the context of this process on the card
CC, SMs: compute capability, multiprocessors
CUDA: the newest that the driver runs; this onnxfit has 13.0
row: for estimator/base/cards.cc, with what was seen here; by hand: family
     (consumer, laptop, workstation, datacenter, cloud, edge or jetson) and type
     of memory for "?"; the alias and the GiB that it is sold with are guesses
)");
}

TEST_CASE("no line is wider than 80 columns, whatever a card is called") {
  DetectedGpu gpu = Unknown();
  gpu.name = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition of the Year 2030";
  gpu.driver = "580.105.08";
  gpu.multiprocessors = 188;
  gpu.total_bytes = gpu.free_bytes = 140 * kGiB;
  gpu.others = {{1, std::string(200, 'x'), kGiB}, {2, "\033[31m\xFF", kGiB}};
  for (const bool ascii : {false, true}) {
    const std::string text = ToText(LookedUp({gpu}), {.ascii = ascii});
    CheckPage(text);
    if (ascii) CHECK(IsAscii(text));
  }
  CHECK(ToText(LookedUp({gpu}), {.quiet = true}) == "1 GPU at hand\n");
}

TEST_CASE("JSON has all of it, and nothing that is not known") {
  CHECK(ToJson(LookedUp({T4()})) == R"x([
  {
    "index": 0,
    "name": "Tesla T4",
    "alias": "t4",
    "compute_capability": "7.5",
    "multiprocessors": 40,
    "threads_per_multiprocessor": 1024,
    "shares_memory": false,
    "total_bytes": 15728640000,
    "free_bytes": 13526630400,
    "smi_bytes": 16106127360,
    "process_bytes": 104857600,
    "usable_bytes": 13631488000,
    "context": {
      "bytes": 142606336,
      "low": 103809024,
      "high": 147849216,
      "basis": "measured"
    },
    "shares": [
      {
        "what": "other processes (python, Xorg)",
        "bytes": 2097152000,
        "low": 2097152000,
        "high": 2097152000,
        "basis": "measured"
      }
    ],
    "others": [
      {
        "pid": 4711,
        "name": "python",
        "bytes": 2080374784
      },
      {
        "pid": 900,
        "name": "Xorg",
        "bytes": 16777216
      }
    ],
    "driver": "580.65.06",
    "cuda_driver": "13.1",
    "cuda_runtime": "13.0",
    "table_row": "{\"t4\", \"Tesla T4\", \"datacenter\", \"GDDR6\", 16, 75, 40, 15000, 0, 15360},"
  }
]
)x");
  CHECK(ToJson(LookedUp({Taken()})) == R"([
  {
    "index": 2,
    "name": "Tesla T4",
    "alias": "t4",
    "why_unusable": "CUDA gives this process no context: CUDA-capable device(s) is/are busy or unavailable",
    "compute_capability": "7.5",
    "multiprocessors": 40,
    "threads_per_multiprocessor": 1024,
    "shares_memory": false,
    "total_bytes": 15728640000,
    "smi_bytes": 16106127360,
    "others": [
      {
        "pid": 12
      }
    ],
    "driver": "580.65.06",
    "cuda_driver": "13.1",
    "cuda_runtime": "13.0",
    "table_row": "{\"t4\", \"Tesla T4\", \"datacenter\", \"GDDR6\", 16, 75, 40, 15000, 0, 15360},"
  }
]
)");
}

TEST_CASE("CSV and Markdown say the same") {
  CHECK(
      ToCsv(LookedUp({T4(), Taken()})) ==
      R"(index,name,alias,compute_capability,multiprocessors,shares_memory,total_bytes,free_bytes,smi_bytes,usable_bytes,others_bytes,context_bytes,context_low,context_high,context_basis,driver,cuda_driver,why_unusable,table_row
0,Tesla T4,t4,7.5,40,false,15728640000,13526630400,16106127360,13631488000,2097152000,142606336,103809024,147849216,measured,580.65.06,13.1,,"{""t4"", ""Tesla T4"", ""datacenter"", ""GDDR6"", 16, 75, 40, 15000, 0, 15360},"
2,Tesla T4,t4,7.5,40,false,15728640000,,16106127360,,,,,,,580.65.06,13.1,CUDA gives this process no context: CUDA-capable device(s) is/are busy or unavailable,"{""t4"", ""Tesla T4"", ""datacenter"", ""GDDR6"", 16, 75, 40, 15000, 0, 15360},"
)");
  CHECK(ToMarkdown(LookedUp({Unknown()})) ==
        R"(| GPU | name | CC | SMs | memory | free | driver | CUDA |
| ---: | --- | ---: | ---: | ---: | ---: | --- | --- |
| 1 | GeForce RTX 6050 Laptop GPU | 13.0 | 20 | 7.62 GiB | 7.52 GiB | ? | 13.1 |

- GPU 1, usable: 7.62 GiB for a process, 115.0 MiB of that its context (assumed)
- GPU 1, others: the driver does not tell
- GPU 1, table: no row has its name: its context is a guess
- GPU 1, row: `{"rtx6050-laptop", "GeForce RTX 6050 Laptop", "?", "?", 8, 130, 20, 7806},`
- memory, free: what CUDA shows, with the context of this process on the card
- CC, SMs: compute capability, multiprocessors
- CUDA: the newest that the driver runs; this onnxfit has 13.0
- row: for estimator/base/cards.cc, with what was seen here; by hand: family (consumer, laptop, workstation, datacenter, cloud, edge or jetson) and type of memory for "?"; the alias and the GiB that it is sold with are guesses
)");
}

TEST_CASE("a row for the table is one of its own for cards that it knows") {
  CHECK(TableRow(LookUp(T4())) ==
        R"({"t4", "Tesla T4", "datacenter", "GDDR6", 16, 75, 40, 15000, 0, 15360},)");
  CHECK(TableRow(LookUp(Unknown())) ==
        R"({"rtx6050-laptop", "GeForce RTX 6050 Laptop", "?", "?", 8, 130, 20, 7806},)");
}

TEST_CASE("--gpu auto is the first card at hand, asked once and only if it is wanted") {
  const Found found =
      TargetsOf({"m.onnx", "-g", "auto", "-g", "t4", "-g", "auto"}, {T4(), Unknown()});
  CHECK(found.searches == 1);
  REQUIRE(found.targets.size() == 2);
  CHECK(found.targets[0].total_bytes == 15000 * kMiB);
  CHECK(found.targets[0].shares.size() == 1);
  CHECK(found.targets[1].total_bytes == FindCard("t4")->total_bytes);
  CHECK(TargetsOf({"m.onnx", "-g", "t4"}, {}).searches == 0);
  const Found all = TargetsOf({"max-batch", "m.onnx", "-g", "auto", "--all-gpus"}, {Unknown()});
  CHECK(all.targets.size() == Cards().size() + 1);
  CHECK(all.targets[0].name == "GeForce RTX 6050 Laptop GPU");
  const Found sizes =
      TargetsOf({"m.onnx", "-g", "auto", "--memory", "1GiB", "--memory", "2GiB"}, {T4()});
  REQUIRE(sizes.targets.size() == 2);
  CHECK(sizes.targets[1].name == "t4 with 2.00 GiB");
  CHECK(sizes.targets[1].device.compute_capability == 75);
}

TEST_CASE("a card at hand that cannot be used is no answer, and no other takes its place") {
  CHECK(NoGpuOf({}) == "no usable GPU: none");
  CHECK(NoGpuOf({T4()}) == "");
  CHECK(
      NoGpuOf({Taken(), T4()}) ==
      "no usable GPU: Tesla T4: CUDA gives this process no context: CUDA-capable device(s) is/are "
      "busy or unavailable (try: another one, by CUDA_VISIBLE_DEVICES)");
}

TEST_CASE("without a card there is one sentence and an exit code of its own") {
  if (!FindGpus().gpus.empty()) {
    MESSAGE("skipped: there is a card");
    return;
  }
  const std::string model = std::string(kSourceDir) + "/models/linear.onnxtxt";
  for (const Args& args : {Args{"gpus", "--detect"}, Args{model, "--gpu", "auto"},
                           Args{"max-batch", model, "-g", "t4", "-g", "auto"}}) {
    const CommandResult result = RunCommand(args);
    CHECK(result.code == 3);
    CHECK(result.out == "");
    CHECK(result.err.starts_with("error: no usable GPU: "));
    CHECK(LinesOf(result.err).size() == 1);
  }
}

TEST_CASE("what is wrong with a command line is said before a card is looked for") {
  const CommandResult filtered = RunCommand({"gpus", "--detect", "rtx"});
  CHECK(filtered.code == 2);
  CHECK(filtered.err == "error: --detect: expected no filter, found 'rtx'\n");
  CHECK(RunCommand({"m.onnx", "--gpu", "auto", "--gpu", "toaster"}).code == 2);
  CHECK(RunCommand({"m.onnx", "--detect"}).err ==
        "error: --detect: expected with gpus alone, found with estimate\n");
}

}  // namespace onnxfit::detect_test
