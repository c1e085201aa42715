// What is told of a program's run, from records as processes write them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/base/error.h"
#include "estimator/fit/target.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_search.h"

namespace onnxfit::program_report_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

constexpr char kRecord[] = R"json({
  "torch": "2.11.0+cu130", "cuda": "13.0", "pid": 7, "ranks": {"RANK": "1"},
  "devices": [{"requested_bytes": 1000, "allocated_bytes": 1024, "reserved_bytes": 2097152,
               "num_alloc_retries": 3, "num_ooms": 1, "index": 0, "name": "Tesla T4"}],
  "end": {"exit_code": 1, "by": null, "out_of_memory": true,
          "exception": "torch.OutOfMemoryError", "message": "CUDA out of memory. Tried"},
  "refused": [{"file": "/me/train.py", "line": 30, "text": "y = net(x)", "device": 0, "bytes": 64,
               "step": 1},
              {"file": "", "line": 0, "text": "", "device": 0, "bytes": 32, "step": 1}],
  "calls": 0, "steps": 2, "step_device": 0, "step_peaks": [[512, 2097152], [1024, 2097152]],
  "unknown_reads": [
    {"file": "/me/train.py", "line": 41, "text": "n = m.sum().item()", "what": "a", "count": 2,
     "kind": "shown"},
    {"file": "/me/train.py", "line": 41, "text": "n = m.sum().item()", "what": "b", "count": 3,
     "kind": "most"}]})json";

ProgramRun RunOn(const char* card, int64_t used) {
  ProgramRun run = {.command = {"python", "train.py"}};
  JudgedTarget judged = {.target = MakeTarget({.card = FindCard(card)}), .judgement = {}};
  judged.judgement.usable_bytes = judged.target.usable_bytes();
  judged.judgement.used_bytes = judged.judgement.low_bytes = judged.judgement.high_bytes = used;
  run.cards.push_back(judged);
  return run;
}

ProgramProcess Trained(std::vector<StepPeaks> steps) {
  ProgramProcess process = {.pid = 7, .torch = "2.11.0"};
  const auto most = [&](auto member) { return std::ranges::max(steps, {}, member).*member; };
  process.peaks = {{.allocated_bytes = most(&StepPeaks::allocated_bytes),
                    .reserved_bytes = most(&StepPeaks::reserved_bytes)}};
  process.steps = static_cast<int64_t>(steps.size());
  process.step_peaks = std::move(steps);
  return process;
}

// Its lines that begin with `words`.
std::string LinesOf(const std::string& text, const std::string& words) {
  std::string found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(' ');
    if (first != line.npos && line.substr(first).starts_with(words)) found += line + '\n';
  }
  return found;
}

TEST_CASE("a process's record is read, one place once") {
  const ProgramProcess process = ReadProgramProcess(kRecord);
  CHECK(process.rank == "1");
  CHECK(process.cuda == "13.0");
  CHECK(process.step_peaks == std::vector<StepPeaks>{{512, 2 * kMiB}, {1024, 2 * kMiB}});
  CHECK(process.peaks[0].ooms == 1);
  REQUIRE(process.unknown.size() == 1);
  CHECK(process.unknown[0].at == ProgramPlace{"train.py:41", "n = m.sum().item()"});
  CHECK(process.unknown[0].count == 5);
  CHECK(process.unknown[0].kind == ReadKind::kMost);
  CHECK(process.is_oom);
  CHECK(process.refused ==
        std::vector<RefusedRequest>{{{"train.py:30", "y = net(x)"}, 64, 1}, {{}, 32, 1}});
  CHECK_THROWS_AS(ReadProgramProcess("{}"), Error);
  CHECK_THROWS_AS(ReadProgramProcess("{"), Error);
}

TEST_CASE("a run that a flag ended says so") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}})};
  run.processes[0].ended_by = "seconds";
  CHECK(ToText({run}).ends_with(
      "What stays open\n"
      "  - --seconds ended it after 1 step: what it does later is not seen\n"));
}

constexpr int64_t kGiB = 1024 * kMiB;

// What vLLM 0.33.0 said of Llama-3's 8B on an A100 of 40 GB: the worker's, then the core's.
const std::vector<std::string> kEngine = {
    R"({"engine": "vLLM", "version": "0.33.0", "weight_bytes": 16106127360, "share": 0.92,
        "consumed_bytes": 16240345088, "activation_bytes": 1073741824, "budget_bytes": 38654705664,
        "available_bytes": 21340618752, "total_bytes": 42949672960, "free_bytes": 41875931136})",
    R"({"engine": "vLLM", "version": "0.33.0", "kv_tokens": 162432, "kv_requests": 1.24, "kv_groups": 1,
        "kv_bytes": 21290287104, "kv_type": "bfloat16", "block_tokens": 16, "longest": 131072,
        "longest_of_model": 131072, "most_requests": 256, "most_tokens": 8192})"};

TEST_CASE("an engine's memory, and what it serves, are told as it says") {
  ProgramRun run = RunOn("a100-40gb", 36 * kGiB);
  run.engine = ReadServingEngine(kEngine);
  CHECK(run.engine->cores == 1);
  CHECK(ToText({run}).find("vLLM 0.33.0, told to use 0.92 of the card: 36.0 GiB\n"
                           "   15.0 GiB  weights\n"
                           "  128.0 MiB  what lives beside them\n"
                           "   1.00 GiB  a step of 8,192 tokens at its peak\n"
                           "   19.8 GiB  keys and values\n"
                           "  - keys and values of bfloat16 of 162,432 tokens have room, in blocks "
                           "of 16\n"
                           "  - a request may have 131,072 tokens, all that the model has; 1.24 "
                           "such\n"
                           "    requests have room at once, and it runs 256 at most\n"
                           "  - about 79 requests of 2,048 tokens have room at once\n") !=
        std::string::npos);
  run.engine->kv_groups = 2;  // as of Gemma 3, most of whose layers see 512 tokens
  const std::string of_windows = ToText({run});
  CHECK(of_windows.find("requests of 2,048 tokens") == std::string::npos);
  CHECK(of_windows.find("(of requests of the longest") != std::string::npos);
  const auto json = nlohmann::json::parse(ToJson({run}, {}));
  CHECK(json["engine"]["kv_tokens"] == 162432);
  CHECK(!json["engine"].contains("needed_bytes"));
}

TEST_CASE("an engine that refuses a request of the longest context says what has room") {
  ProgramRun run = RunOn("a100-40gb", 36 * kGiB);
  const std::string refused = R"({"available_bytes": 21340618752, "needed_bytes": 22414360576,
                                  "longest": 131072, "longest_that_fits": 124792})";
  run.engine = ReadServingEngine({refused, kEngine[0]});
  // 36 GiB and 1 GiB more, of 40.
  CHECK(ToText({run}).find(
            "  - vLLM refused to start: one request of 131,072 tokens needs 20.9 GiB of keys\n"
            "    and values, and 19.9 GiB are left\n"
            "  - --max-model-len 124792 is the longest that has room, as it says\n"
            "  - --gpu-memory-utilization 0.925 has room for it on a card of its own\n") !=
        std::string::npos);
  run.engine->free_bytes = 36 * kGiB;
  CHECK(ToText({run}).find("--gpu-memory-utilization") == std::string::npos);
  CHECK(!ReadServingEngine({}));
  CHECK_THROWS_AS(ReadServingEngine({"{"}), Error);
}

// What SGLang 0.5.23 said of a small Llama on an L4, with CUDA graphs.
constexpr const char* kSglang =
    R"({"engine": "SGLang", "version": "0.5.23", "share": 0.677, "weight_bytes": 341835776,
        "consumed_bytes": 341835776, "budget_bytes": 15679353651, "available_bytes": 15337517875,
        "total_bytes": 23658692608, "free_bytes": 23160049664, "kv_tokens": 936294,
        "kv_requests": 228.59, "kv_groups": 1, "kv_bytes": 15340257280, "kv_type": "bfloat16",
        "block_tokens": 1, "longest": 4096, "longest_of_model": 4096, "most_requests": 4096,
        "most_tokens": 4096, "graph_bytes": 278921216})";

TEST_CASE("SGLang's share is of what was free, and CUDA graphs lie beside it") {
  ProgramRun run = RunOn("l4", 16 * kGiB);
  run.engine = ReadServingEngine({kSglang});
  CHECK(ToText({run}).find(
            "SGLang 0.5.23, told to use 0.677 of what was free: 14.6 GiB\n"
            "  326.0 MiB  weights\n"
            "   14.3 GiB  keys and values\n"
            "  - keys and values of bfloat16 of 936,294 tokens have room, in blocks of 1\n"
            "  - a request may have 4,096 tokens, all that the model has; 228.59 such\n"
            "    requests have room at once, and it runs 4,096 at most\n"
            "  - about 457 requests of 2,048 tokens have room at once\n"
            "  - what a step and CUDA graphs take lies beside its share\n"
            "  - CUDA graphs took 266.0 MiB as they were captured; what the driver takes for\n"
            "    them beside their tensors is counted as none\n") != std::string::npos);
  run.engine->most_requests = 48;
  CHECK(ToText({run}).find("  - --max-running-requests, not memory, is the limit") !=
        std::string::npos);
}

TEST_CASE("SGLang whose share the weights fill says the least that has room") {
  ProgramRun run = RunOn("l4", 798 * kMiB);
  run.engine = ReadServingEngine(
      {R"({"engine": "SGLang", "version": "0.5.23", "share": 0.005, "budget_bytes": 115800248,
           "weight_bytes": 341835776, "consumed_bytes": 341835776, "least_share": 0.01476})"});
  CHECK(run.engine->is_refused());
  CHECK(ToText({run}).find(
            "SGLang 0.5.23, told to use 0.005 of what was free: 110.4 MiB\n"
            "  326.0 MiB  weights\n"
            "  - SGLang refused to start: weights and what lives beside them take 326.0 MiB,\n"
            "    which leaves nothing for keys and values\n"
            "  - --mem-fraction-static has to be above 0.015, as it says\n") != std::string::npos);
  run.engine->budget_bytes = -1524713390;  // as it chooses a share of 1 GiB by itself
  CHECK(ToText({run}).find("SGLang 0.5.23\n") != std::string::npos);
}

TEST_CASE("the end when turns are the same says of what kind they were") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}})};
  run.processes[0].ended_by = "until-same";
  run.processes[0].steps = 5;
  CHECK(ToText({run}).ends_with(
      "  - --until-same ended it after 5 steps, the last of which allocated the same:\n"
      "    what it does otherwise later is not seen\n"));
  run.processes[0].steps = 0;
  run.processes[0].calls = 4;
  CHECK(ToText({run}).find("ended it after 4 calls of its model") != std::string::npos);
}

TEST_CASE("steps that have no row of their own are in the last one") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}, {150 * kMiB, 200 * kMiB}})};
  run.processes[0].steps = 30000;
  CHECK(LinesOf(ToText({run}), "steps") == "  steps 2–30000  150.0 MiB  200.0 MiB\n");
}

TEST_CASE("of several cards in one process each row and verdict names its own") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.cards.push_back(run.cards[0]);
  run.cards[1].judgement.verdict = Verdict::kTight;
  run.cards[1].judgement.reasons = {"it is full"};
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}})};
  ProgramProcess& process = run.processes[0];
  process.peaks.push_back(process.peaks[0]);
  process.peaks[1].device = 1;
  process.step_device = 1;
  process.held = {{{"train.py:9", "y = net(x)"}, 60 * kMiB, 2}};
  process.held_bytes = 60 * kMiB;
  const std::string text = ToText({run});
  CHECK(
      text.starts_with("FITS on t4 (cuda:0): 2.93 GiB of 14.6 GiB, 20.1%\n"
                       "TIGHT on t4 (cuda:1): 2.93 GiB of 14.6 GiB, 20.1%\n"
                       "  - cuda:1: it is full\n"));
  CHECK(LinesOf(text, "step 1") == "  step 1, cuda:1   100.0 MiB  200.0 MiB\n");
  CHECK(LinesOf(text, "the run").find("the run, cuda:1") != std::string::npos);
  CHECK(text.find("At the peak of cuda:0, 60.0 MiB") != std::string::npos);
}

TEST_CASE("a program that was refused and went on says what, where, and what came then") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.cards[0].judgement.verdict = Verdict::kTight;
  run.cards[0].judgement.reasons = {"PyTorch ran out of memory 5 times and the program went on"};
  run.processes = {Trained({{900 * kMiB, 999 * kMiB},
                            {100 * kMiB, 990 * kMiB},
                            {100 * kMiB, 200 * kMiB},
                            {100 * kMiB, 210 * kMiB}})};
  ProgramProcess& process = run.processes[0];
  const ProgramPlace at = {"train.py:9", "y = net(x)"};
  process.refused = {
      {at, 512 * kMiB, 0}, {at, 256 * kMiB, 0}, {at, 128 * kMiB, 1}, {at, 64 * kMiB, 1}};
  process.full_at = at;
  const auto after = [&] {
    const std::string text = ToText({run});
    return text.substr(0, text.find("\n\n") + 1);
  };
  const std::string head =
      "TIGHT on t4: 2.93 GiB of 14.6 GiB, 20.1%\n"
      "  - PyTorch ran out of memory 5 times and the program went on\n";
  CHECK(after() ==
        head +
            "  - refused at train.py:9 (y = net(x)): 512.0 MiB, 256.0 MiB, 128.0 MiB and 1\n"
            "    more, in steps 1 to 2\n"
            "  - then it went on for 3 steps, and reserved 210.0 MiB at most from the second\n"
            "    on\n");
  // Where nothing came behind it, or nothing of a loop is known.
  process.refused = {{{}, 512 * kMiB, 4}};
  CHECK(after() == head +
                       "  - refused: 512.0 MiB, in step 5\n"
                       "  - no step of an optimizer came behind that\n");
  process.steps = 0;
  process.step_peaks = {};
  CHECK(
      after().ends_with("  - refused: 512.0 MiB\n"
                        "  - no step of an optimizer came behind that\n"));
}

TEST_CASE("what was not watched is told") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.unwatched = 2;
  run.asked = {{{"train.py:9", "grow(7)"}, 7 * kMiB, 1}, {{"libtool.so", "Grow"}, 2 * kMiB, 1}};
  run.asked_bytes = 9 * kMiB;
  const std::string text = ToText({run});
  CHECK(text.find("\nAt the peak, 9.00 MiB by who asked the card for it\n"
                  "  7.00 MiB  train.py:9  grow(7)\n"
                  "  2.00 MiB  libtool.so  Grow\n") != std::string::npos);
  CHECK(text.find("  - 2 processes of Python ran without what onnxfit run puts into it") !=
        std::string::npos);
}

TEST_CASE("steps that read alike are one row") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {
      Trained({{100 * kMiB, 200 * kMiB}, {150 * kMiB, 200 * kMiB}, {150 * kMiB, 200 * kMiB}})};
  CHECK(ToText({run}) ==
        "FITS on t4: 2.93 GiB of 14.6 GiB, 20.1%\n"
        "\n"
        "PyTorch 2.11.0  allocated   reserved\n"
        "  step 1        100.0 MiB  200.0 MiB\n"
        "  steps 2–3     150.0 MiB  200.0 MiB\n"
        "  the run       150.0 MiB  200.0 MiB\n");
  CHECK(ToText({run}, {.quiet = true}) == "FITS on t4: 2.93 GiB of 14.6 GiB, 20.1%\n");
}

TEST_CASE("of steps that all differ a range is told") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  std::vector<StepPeaks> steps;
  for (int64_t i = 0; i < 50; ++i) steps.push_back({(100 + i * 7 % 50) * kMiB, 200 * kMiB});
  run.processes = {Trained(steps)};
  CHECK(LinesOf(ToText({run}), "step") ==
        "  step 1                    100.0 MiB  200.0 MiB\n"
        "  steps 2–50    101.0 MiB – 149.0 MiB  200.0 MiB\n");
}

TEST_CASE("ranks have a row each, and the lines of the largest are told") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  for (const int64_t rank : {0, 1}) {
    ProgramProcess process = Trained({{(100 + rank) * kMiB, 200 * kMiB}});
    process.rank = std::to_string(rank);
    process.held = {{{"train.py:9", "y = net(x)"}, (60 + rank) * kMiB, 2}, {{}, 39 * kMiB, 5}};
    process.held_bytes = (99 + rank) * kMiB;
    run.processes.push_back(process);
  }
  const std::string text = ToText({run});
  CHECK(LinesOf(text, "rank") ==
        "  rank 0        100.0 MiB  200.0 MiB\n"
        "  rank 1        101.0 MiB  200.0 MiB\n");
  CHECK(text.find("At the peak of rank 1, 100.0 MiB by the lines that asked for it\n"
                  "  61.0 MiB  train.py:9  y = net(x)\n"
                  "  39.0 MiB  backward\n") != std::string::npos);
}

TEST_CASE("lines that are not shown are counted, and long ones are cut") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  ProgramProcess process = Trained({{100 * kMiB, 200 * kMiB}});
  process.held = {{{"train.py:9", std::string(90, 'x')}, 60 * kMiB, 2},
                  {{"train.py:8", "a = 1"}, 20 * kMiB, 2},
                  {{"train.py:7", "b = 1"}, 10 * kMiB, 2}};
  process.held_bytes = 90 * kMiB;
  run.processes = {process};
  const std::string text = ToText({run}, {.rows = 1});
  CHECK(LinesOf(text, "60.0 MiB") == "  60.0 MiB  train.py:9     " + std::string(52, 'x') + "…\n");
  CHECK(LinesOf(text, "30.0 MiB") == "  30.0 MiB  2 other lines\n");
}

TEST_CASE("a look inside of a line that holds much") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  ProgramProcess process = Trained({{100 * kMiB, 200 * kMiB}});
  process.held = {
      {{"train.py:9", "trainer.train()"}, 60 * kMiB, 2, {{{"gpt.py:3", "y = x"}, 50 * kMiB, 1}}},
      {{"train.py:8", "a = f()"}, 10 * kMiB, 2, {{{"gpt.py:4", "z = x"}, 10 * kMiB, 1}}}};
  process.held_bytes = 70 * kMiB;
  run.processes = {process};
  const std::string text = ToText({run});
  CHECK(text.substr(text.find("At the peak")) ==
        "At the peak, 70.0 MiB by the lines that asked for it\n"
        "  60.0 MiB  train.py:9  trainer.train()\n"
        "  50.0 MiB    gpt.py:3    y = x\n"
        "  10.0 MiB  train.py:8  a = f()\n");
}

TEST_CASE("what ran out is told where, and what its message means") {
  ProgramRun run = RunOn("t4", 15000 * kMiB);
  run.cards[0].judgement.verdict = Verdict::kOom;
  run.exit_code = 1;
  ProgramProcess process = Trained({{100 * kMiB, 200 * kMiB}});
  process.is_oom = true;
  process.full_at = {"train.py:9", "y = net(x)"};
  process.oom = {"CAPACITY: 64.00 MiB asked", "the card is full"};
  run.processes = {process};
  CHECK(
      ToText({run}).starts_with("OOM on t4: 14.6 GiB of 14.6 GiB, 100.5%\n"
                                "  - full at train.py:9 (y = net(x)); CAPACITY: 64.00 MiB asked\n"
                                "  - the card is full\n"));
}

TEST_CASE("a failure has its own words, and no verdict") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.exit_code = 1;
  run.failed = true;
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}})};
  run.processes[0].exception = "ValueError";
  run.processes[0].message = "no labels";
  CHECK(ToText({run}).starts_with(
      "FAILED on t4: until then 2.93 GiB of 14.6 GiB, 20.1%\n"
      "  - the program ended with 1 after 1 step: ValueError: no labels\n"));
}

// As hook/pools.py writes it.
std::string PoolRecord(const char* exception, bool is_oom, const char* failed) {
  return fmt::format(R"json({{"framework": "JAX", "version": "0.10.2", "pid": 7,
    "devices": [{{"index": 0, "used_bytes": 276479232, "pool_bytes": 11733565440,
                  "limit_bytes": 11733565440, "is_peak": true}}],
    "in_advance": "PREALLOCATE=false", "more": "FRACTION=0.95", "exception": "{}",
    "out_of_memory": {}, "failed": "{}", "open": ["values are zeros"]}})json",
                     exception, is_oom, failed);
}

TEST_CASE("what a framework took in advance is told apart from what it used") {
  ProgramRun run = RunOn("t4", 11326 * kMiB);
  run.frameworks = {ReadFrameworkCounts(PoolRecord("", false, ""))};
  const std::string text = ToText({run});
  CHECK(
      text.find("  - JAX takes 10.9 GiB in advance, whatever it needs: it used 263.7 MiB of that\n"
                "    at most; PREALLOCATE=false has it take what it needs\n") != text.npos);
  CHECK(text.find("\nJAX 0.10.2  used at most  its pool\n"
                  "  the run      263.7 MiB  10.9 GiB\n") != text.npos);
  CHECK(text.find("  - JAX: values are zeros\n") != text.npos);
  const auto json = nlohmann::json::parse(ToJson({run}, {}));
  CHECK(json["frameworks"][0]["devices"][0]["used_bytes"] == 276479232);
  CHECK(json["frameworks"][0]["devices"][0]["pool_bytes"] == 11733565440);
  CHECK_THROWS_AS(ReadFrameworkCounts("{}"), Error);
}

TEST_CASE("a framework that ran out of its pool says so, and how it has more") {
  ProgramRun run = RunOn("t4", 11326 * kMiB);
  run.frameworks = {ReadFrameworkCounts(PoolRecord("", false, "RESOURCE_EXHAUSTED: 1 GiB"))};
  CHECK(LinesOf(ToText({run}), "- ") ==
        "  - JAX ran out of memory: a result that it never read is an error:\n"
        "  - its pool may have 10.9 GiB of the card: FRACTION=0.95 lets it have more\n"
        "  - JAX: values are zeros\n");
  run.frameworks = {ReadFrameworkCounts(PoolRecord("ValueError: no", false, ""))};
  run.failed = true;
  run.exit_code = 1;
  CHECK(LinesOf(ToText({run}), "- the program") ==
        "  - the program ended with 1: ValueError: no\n");
}

TEST_CASE("what stays open is short") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}}), Trained({{100 * kMiB, 200 * kMiB}})};
  for (ProgramProcess& process : run.processes) {
    for (int64_t line = 1; line < 6; ++line) {
      process.unknown.push_back({{fmt::format("train.py:{}", line), std::string(60, 'y')}, 4});
    }
  }
  run.saved = {"model.pt", "model.pt.1", "log.txt", "out/log.txt"};
  run.unknown_functions = {"cuGLInit"};
  const std::string text = ToText({run});
  CHECK(text.substr(text.find("What stays open")) ==
        "What stays open\n"
        "  - values that no kernel computed were read; loops, sizes and branches that\n"
        "    depend on them may differ on a card:\n"
        "      train.py:1  " +
            std::string(45, 'y') +
            "…\n"
            "      train.py:2  " +
            std::string(45, 'y') +
            "…\n"
            "      train.py:3  " +
            std::string(45, 'y') +
            "…\n"
            "      and at 2 other lines\n"
            "  - kept apart from your files, and gone: model.pt and 3 others\n"
            "  - functions that this card does not have, told so to the program: cuGLInit\n");
  std::istringstream lines(ToText({run}, {.verbose = true}));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 84);  // letters beyond ASCII have more bytes
  }
}

TEST_CASE("reads that decide come first, those that are only shown are counted") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {Trained({{100 * kMiB, 200 * kMiB}})};
  run.processes[0].unknown = {{{"train.py:1", "print(x.item())"}, 1, ReadKind::kShown},
                              {{"train.py:2", "x = x[x > 0]"}, 1, ReadKind::kMost},
                              {{"train.py:3", "if x.item() > 0:"}, 1, ReadKind::kDecides},
                              {{"train.py:4", "print(y.item())"}, 1, ReadKind::kShown}};
  const std::string text = ToText({run});
  CHECK(text.substr(text.find("What stays open")) ==
        "What stays open\n"
        "  - values that no kernel computed were read; loops, sizes and branches that\n"
        "    depend on them may differ on a card:\n"
        "      train.py:3  if x.item() > 0:\n"
        "  - sizes that no kernel computed are the most that they can be, and take less\n"
        "    on a card:\n"
        "      train.py:2  x = x[x > 0]\n"
        "  - values that no kernel computed are only printed or logged, at 2 lines\n");
}

TEST_CASE("of several cards the last that fits is told in full") {
  ProgramRun small = RunOn("t4", 15000 * kMiB);
  small.cards[0].judgement.verdict = Verdict::kOom;
  const std::string text = ToText({small, RunOn("a100-40gb", 3000 * kMiB)});
  CHECK(text.starts_with("OOM on t4: "));
  CHECK(text.find("\nFITS on a100-40gb: ") != text.npos);
  CHECK(text.ends_with("\nOn a100-40gb\n"));
  const auto json =
      nlohmann::json::parse(ToJson({small, RunOn("a100-40gb", 3000 * kMiB)}, {.version = "1"}));
  CHECK(json["targets"].size() == 2);
  CHECK(json["runs"][1]["targets"][0]["verdict"] == "fits");
}

TEST_CASE("JSON has what a record says") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.processes = {ReadProgramProcess(kRecord)};
  run.processes[0].held = {{{"train.py:9", "y = net(x)"}, 60, 2}};
  run.processes[0].held_bytes = 60;
  run.saved = {"model.pt"};
  const auto json = nlohmann::json::parse(ToJson({run}, {.version = "1"}));
  const auto& process = json["processes"][0];
  CHECK(json["peak"] == nlohmann::json{{"device_bytes", 3000 * kMiB},
                                       {"exact_bytes", 1000},
                                       {"allocated_bytes", 1024},
                                       {"reserved_bytes", 2 * kMiB}});
  CHECK(process["rank"] == "1");
  CHECK(process["step_peaks"][1]["allocated_bytes"] == 1024);
  CHECK(process["devices"][0]["ooms"] == 1);
  CHECK(process["out_of_memory"] == true);
  CHECK(process["held"][0]["place"] == "train.py:9");
  CHECK(process["held_device"] == 0);
  CHECK(process["refused"][0]["place"] == "train.py:30");
  CHECK(process["unknown_reads"][0]["count"] == 5);
  CHECK(process["unknown_reads"][0]["kind"] == "most");
  CHECK(json["not_written"][0] == "model.pt");
}

TEST_CASE("RAM of the host is told, but for what every machine has") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.host = {.bytes = 3072 * kMiB, .processes = 5, .pinned_bytes = 512 * kMiB};
  CHECK(ToText({run}).find(
            "\nRAM of the host, at most 3.00 GiB in 5 processes; 512.0 MiB pinned\n") !=
        std::string::npos);
  const auto host = nlohmann::json::parse(ToJson({run}, {.version = "1"}))["host"];
  CHECK(host["bytes"] == 3072 * kMiB);
  CHECK(host["pinned_bytes"] == 512 * kMiB);
  run.host.bytes = 9 * kMiB;
  CHECK(ToText({run}).find("RAM") == std::string::npos);
}

TEST_CASE("RAM that does not suffice is OOM, with less than a twentieth left TIGHT") {
  struct Row {
    HostPeak host;
    Verdict verdict;
  };
  const Row rows[] = {
      {{.bytes = 90 * kMiB}, Verdict::kFits},  // nobody asked
      {{.bytes = 90 * kMiB, .limit_bytes = 100 * kMiB}, Verdict::kFits},
      {{.bytes = 96 * kMiB, .limit_bytes = 100 * kMiB}, Verdict::kTight},
      {{.bytes = 101 * kMiB, .limit_bytes = 100 * kMiB}, Verdict::kOom},
      {{.bytes = 9 * kMiB, .pinned_bytes = 101 * kMiB, .limit_bytes = 100 * kMiB}, Verdict::kOom},
      {{.bytes = 60 * kMiB, .pinned_bytes = 60 * kMiB, .limit_bytes = 100 * kMiB}, Verdict::kTight},
      {{.bytes = 60 * kMiB, .managed_bytes = 50 * kMiB, .limit_bytes = 100 * kMiB}, Verdict::kFits},
      {{.bytes = 60 * kMiB, .spilled_bytes = 50 * kMiB, .limit_bytes = 100 * kMiB},
       Verdict::kTight},
  };
  for (const Row& row : rows) {
    CAPTURE(row.host.most_bytes());
    CHECK(HostVerdict(row.host) == row.verdict);
  }
}

TEST_CASE("where RAM has no room the card has, the first line says so") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  run.host = {.bytes = 3072 * kMiB, .processes = 5, .limit_bytes = 2048 * kMiB};
  run.host.verdict = run.cards[0].judgement.verdict = HostVerdict(run.host);
  const std::string text = ToText({run});
  CHECK(
      text.starts_with("OOM of the host beside t4: 3.00 GiB of 2.00 GiB of RAM, 150.0%\n"
                       "  - RAM of the host has no room for it, 3.00 GiB asked of 2.00 GiB; t4 has "
                       "room:\n    2.93 GiB of 14.6 GiB"));
  CHECK(text.find("\nRAM of the host, at most 3.00 GiB of 2.00 GiB in 5 processes\n") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(ToJson({run}, {.version = "1"}));
  CHECK(json["host"]["verdict"] == "oom");
  CHECK(json["targets"][0]["verdict"] == "oom");
}

TEST_CASE("managed memory is told apart") {
  ProgramRun run = RunOn("t4", 3000 * kMiB);
  CHECK(ToText({run}).find("managed") == std::string::npos);
  run.host.managed_bytes = 2048 * kMiB;
  CHECK(
      ToText({run}).find("\n  - 2.00 GiB of managed memory (cudaMallocManaged), counted neither") !=
      std::string::npos);
}

TEST_CASE("a search whose largest batch is TIGHT names the one that fits") {
  ProgramSearch search = {
      .command = {"python", "train.py", "{}"}, .steps = 10, .found = {.batch = 96}};
  search.found.fits_batch = 80;
  search.found.does_not_fit = 88;
  search.largest = RunOn("t4", 3000 * kMiB);
  search.largest.cards[0].judgement.verdict = Verdict::kTight;
  search.found.tried = {
      {80, Verdict::kFits, 1}, {96, Verdict::kTight, 2}, {88, Verdict::kTight, 2}};
  const std::string text = ToText({search});
  CHECK(text.starts_with("batch 96 on t4: TIGHT, 2.93 GiB of 14.6 GiB, 20.1%; 80 FITS\n"));
  CHECK(text.find("  - 80 FITS, 88 does not; what lies between was not tried\n") !=
        std::string::npos);
}

TEST_CASE("a search tells the batch, what was run, and what it left open") {
  ProgramSearch search = {
      .command = {"python", "train.py", "{}"}, .steps = 10, .found = {.batch = 96}};
  search.found.multiple_of = 8;
  search.found.fits_batch = 96;
  search.found.fails = 112;
  search.largest = RunOn("t4", 3000 * kMiB);
  search.found.tried = {{64, Verdict::kFits, 1}, {128, Verdict::kOom, 2}, {96, Verdict::kTight, 2}};
  search.found.fixed_bytes = 500 * kMiB;
  search.found.per_sample_bytes = 25 * kMiB;
  CHECK(ToText({search}) ==
        "batch 96 on t4: FITS, 2.93 GiB of 14.6 GiB, 20.1%\n"
        "  - run, up to 10 steps each: 64, 128 (OOM), 96 (TIGHT)\n"
        "  - 112 does not run; what lies between was not tried\n"
        "  - it takes about 500.0 MiB + 25.0 MiB a sample\n");
  search.is_of_ram = true;
  CHECK(ToText({search}).find("  - 112 has no room in the host's RAM, and has on the card\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace onnxfit::program_report_test
