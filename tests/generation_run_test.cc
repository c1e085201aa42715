// What is told of generate(), from what its run tells.
#include "estimator/report/generation_run.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/base/error.h"
#include "estimator/fit/target.h"

namespace onnxfit::generation_run_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Two kinds of layers: one that grows by 32 KiB a token and layer, one that does not.
constexpr char kTold[] = R"({"library": "transformers 5.17.0", "name": "Gemma2ForCausalLM",
  "dtype": "bfloat16", "calls": 65, "cache": [
    {"kind": "DynamicLayer", "layers": 2, "bytes": 71303168, "host_bytes": 0, "first_bytes": 67108864},
    {"kind": "SlidingLayer", "layers": 2, "bytes": 8388608, "host_bytes": 4194304,
     "first_bytes": 12582912}]})";

ProgramPhase Phase(PhaseKind kind, int64_t allocated, int64_t left) {
  return {.kind = kind,
          .times = 1,
          .cards = {{.allocated_bytes = allocated * kMiB,
                     .reserved_bytes = (allocated + 20) * kMiB,
                     .left_allocated_bytes = left * kMiB,
                     .left_reserved_bytes = (left + 10) * kMiB}}};
}

GenerationRun Run(int64_t batch, int64_t used, Verdict verdict = Verdict::kFits) {
  GenerationRun run = {
      .asked = {.model = "./gemma", .batch = batch, .prompt = 512, .new_tokens = 65},
      .told = ReadGeneration(kTold),
      .run = {.command = {"./gemma"}}};
  JudgedTarget card = {.target = MakeTarget({.card = FindCard("t4")}), .judgement = {}};
  card.judgement.verdict = verdict;
  card.judgement.usable_bytes = card.target.usable_bytes();
  card.judgement.used_bytes = card.judgement.low_bytes = card.judgement.high_bytes = used * kMiB;
  run.run.cards = {card};
  run.run.processes = {
      {.torch = "2.11.0",
       .peaks = {{.allocated_bytes = 900 * kMiB, .reserved_bytes = 920 * kMiB}},
       .phases = {Phase(PhaseKind::kStart, 500, 500), Phase(PhaseKind::kPrefill, 900, 600),
                  Phase(PhaseKind::kDecoding, 640, 610)}}};
  return run;
}

}  // namespace

TEST_CASE("a run tells its phases, its cache by kind of layer, and how that grows") {
  CHECK(ToText(std::vector{Run(8, 1500)}) ==
        "FITS on t4: 1.46 GiB of 14.6 GiB, 10.1%\n"
        "\n"
        "Gemma2ForCausalLM in bfloat16: 8 prompts of 512 tokens, 65 new each\n"
        "transformers 5.17.0, PyTorch 2.11.0  allocated   reserved\n"
        "  the model, and its prompts         500.0 MiB  510.0 MiB\n"
        "  prefill, at most                   900.0 MiB  920.0 MiB\n"
        "  decoding, at most                  640.0 MiB  660.0 MiB\n"
        "\n"
        "Its cache at the end, 80.0 MiB\n"
        "    68.0 MiB  2 layers of DynamicLayer, 64.0 KiB more a token\n"
        "    12.0 MiB  2 layers of SlidingLayer, none of which grows, 4.00 MiB on the\n"
        "              host\n"
        "\n"
        "What stays open\n"
        "  - prompts are of one length, and no text ends before its last token: batches\n"
        "    that are padded take what their longest takes\n");
}

TEST_CASE("several runs are a table, a row each") {
  const std::string text = ToText({Run(8, 1500), Run(64, 16000, Verdict::kOom)});
  CHECK(text.find("t4        8     512   65  900.0 MiB  640.0 MiB  80.0 MiB  1.46 GiB  FITS\n") !=
        text.npos);
  CHECK(text.find("15.6 GiB  OOM\n") != text.npos);
}

TEST_CASE("a phase that was not reached has no bytes") {
  GenerationRun run = Run(64, 16000, Verdict::kOom);
  run.run.processes[0].phases.pop_back();
  const auto json = nlohmann::json::parse(ToJson({run}, JsonOptions{}));
  const auto& told = json["runs"][0];
  CHECK(told["model_bytes"] == 500 * kMiB);
  CHECK(told["prefill_bytes"] == 900 * kMiB);
  CHECK(!told.contains("decoding_bytes"));
  CHECK(told["cache"][1]["host_bytes"] == 4 * kMiB);
  CHECK(json["targets"][0]["verdict"] == "oom");
  CHECK(json["library"] == "transformers 5.17.0");
}

TEST_CASE("of a card that was full at once the most is told, and no cache is missed") {
  GenerationRun run = Run(64, 16000, Verdict::kOom);
  run.run.processes[0].phases.clear();
  run.told = {.library = "transformers 5.17.0"};
  const std::string text = ToText(std::vector{run});
  CHECK(text.find("./gemma: 64 prompts of 512 tokens, 65 new each\n") != text.npos);
  CHECK(text.find("  until it was full                  900.0 MiB  920.0 MiB\n") != text.npos);
  CHECK(text.find("no cache") == text.npos);
}

TEST_CASE("where calls are not tokens nothing is said of growth, but that") {
  GenerationRun run = Run(8, 1500);
  run.told.calls = 1;
  run.told.open = {"prompts have no image"};
  const std::string text = ToText({run, Run(8, 1500)});
  CHECK(text.find("  - the model was called once for 65 tokens") != text.npos);
  CHECK(text.find("  - prompts have no image\n") != text.npos);
  CHECK(ToText(std::vector{run}).find("a token\n") == text.npos);
}

TEST_CASE("a search tells what was solved, and what was held") {
  GenerationSearch search = {
      .solved = "prompt",
      .found = {.batch = 512,
                .fits_batch = 512,
                .fails = 600,
                .tried = {{512, Verdict::kFits, 1500 * kMiB}, {600, Verdict::kOom, 16000 * kMiB}}},
      .largest = Run(8, 1500)};
  const std::string prompt = ToText(std::vector{search}, {.quiet = true});
  CHECK(prompt ==
        "prompts of 512 tokens on t4 (batch 8, new 65): FITS, 1.46 GiB of 14.6 GiB, 10.1%\n");
  search.solved = "batch";
  search.found.batch = 0;
  search.largest = Run(512, 16000, Verdict::kOom);
  CHECK(ToText(std::vector{search}, {.quiet = true})
            .starts_with("none on t4 (prompt 512, new 65): batch 512 is OOM, 15.6 GiB of"));
  const auto json = nlohmann::json::parse(ToJson(std::vector{search}, JsonOptions{}));
  CHECK(json["targets"][0]["max_batch"] == 0);
  CHECK(json["targets"][0]["solved"] == "batch");
}

TEST_CASE("what a generation tells has to be JSON of its kind") {
  CHECK(ReadGeneration(R"({"missing": "torch"})").missing == "torch");
  CHECK_THROWS_AS(ReadGeneration("{"), Error);
  CHECK_THROWS_AS(ReadGeneration(R"({"cache": [{"kind": "x"}]})"), Error);
}

}  // namespace onnxfit::generation_run_test
