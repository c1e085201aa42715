#include "estimator/report/runtime_run.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/error.h"

namespace onnxfit::runtime_run_test {
namespace {

RuntimeRun SomeRun() {
  RuntimeRun run = {.runtime = "ONNX Runtime 1.31.1",
                    .model = "m.onnx",
                    .batch = 8,
                    .context_bytes = 119 * kMiB,
                    .weight_bytes = 400 * kMiB,
                    .most_bytes = 440 * kMiB,
                    .orders = 200,
                    .arena = {512 * kMiB, 1023 * kMiB},
                    .bytes = {512 * kMiB, 1024 * kMiB}};
  run.target = {.target = MakeTarget({.card = FindCard("t4")}), .judgement = {}};
  run.target.judgement = {.usable_bytes = 14 * kGiB,
                          .used_bytes = 1143 * kMiB,
                          .low_bytes = 631 * kMiB,
                          .high_bytes = 1150 * kMiB};
  run.sessions = {
      {.used_bytes = {512 * kMiB, 512 * kMiB}, .arena_bytes = {512 * kMiB, 512 * kMiB}},
      {.used_bytes = {513 * kMiB, 1024 * kMiB}, .arena_bytes = {512 * kMiB, 1023 * kMiB}}};
  run.settings = {{"--session enable_mem_pattern=0", {450 * kMiB, 450 * kMiB}}};
  run.open = {"inputs are zeros"};
  return run;
}

TEST_CASE("sessions of a runtime as text") {
  CHECK(ToText({SomeRun()}) ==
        "FITS on t4: 1.12 GiB of 14.0 GiB, 8.0% (631.0 MiB–1.12 GiB)\n"
        "\n"
        "ONNX Runtime 1.31.1, 2 sessions                   arena     beside the context\n"
        "  weights                                     512.0 MiB  512.0 MiB – 513.0 MiB\n"
        "  run 1                          512.0 MiB – 1023.0 MiB   512.0 MiB – 1.00 GiB\n"
        "  200 orders of weights, played  512.0 MiB – 1023.0 MiB   512.0 MiB – 1.00 GiB\n"
        "\n"
        "At most 1.00 GiB beside the context of 119.0 MiB\n"
        "  400.0 MiB  weights\n"
        "   40.0 MiB  values of a run at once, or the block of their pattern; scratch\n"
        "  584.0 MiB  free in the arena, and what lies outside of it\n"
        "\n"
        "What settings make of it, beside the context, played\n"
        "  450.0 MiB  --session enable_mem_pattern=0\n"
        "\n"
        "What stays open\n"
        "  - inputs are zeros\n");
  CHECK(ToText({SomeRun()}, {.quiet = true}) ==
        "FITS on t4: 1.12 GiB of 14.0 GiB, 8.0% (631.0 MiB–1.12 GiB)\n");
}

TEST_CASE("runs are named by their shapes where there are several") {
  RuntimeRun run = SomeRun();
  run.shapes = {"batch 8, seq 64", "batch 8, seq 128"};
  run.sessions = {{.used_bytes = {1, 2, 3, 4, 5}, .arena_bytes = {1, 2, 3, 4, 5}}};
  const std::string text = ToText({run});
  CHECK(text.find("\n  batch 8, seq 64: run 2 ") != std::string::npos);
  CHECK(text.find("\n  batch 8, seq 128: run 1 ") != std::string::npos);
}

TEST_CASE("the largest batch of a runtime as text and JSON") {
  RuntimeSearch search = {.found = {.batch = 8, .fits_batch = 8, .fails = 9}, .largest = SomeRun()};
  search.found.tried = {{1, Verdict::kFits, 1}, {9, Verdict::kOom, 3}, {8, Verdict::kFits, 2}};
  const std::vector<RuntimeSearch> searches = {search};
  const std::string text = ToText(searches);
  CHECK(
      text.starts_with("batch 8 on t4: FITS, 1.12 GiB of 14.0 GiB, 8.0% (631.0 MiB–1.12 GiB)\n"
                       "  - run: 1, 9 (OOM), 8\n"
                       "  - 9 does not run\n"
                       "\n"
                       "ONNX Runtime 1.31.1, 2 sessions"));
  const auto json = nlohmann::json::parse(ToJson(searches, {.version = "1"}));
  CHECK(json["targets"][0]["max_batch"] == 8);
  CHECK(json["targets"][0]["tried"][1]["verdict"] == "oom");
  CHECK(json["targets"][0]["run"]["high_bytes"] == 1024 * kMiB);
}

TEST_CASE("sessions of a runtime as JSON") {
  const auto json = nlohmann::json::parse(ToJson({SomeRun()}, {.version = "1"}));
  CHECK(json["targets"][0]["verdict"] == "fits");
  const auto& run = json["runs"][0];
  CHECK(run["low_bytes"] == 512 * kMiB);
  CHECK(run["high_bytes"] == 1024 * kMiB);
  CHECK(run["sessions"][1]["used_bytes"][1] == 1024 * kMiB);
  CHECK(run["settings"][0]["flag"] == "--session enable_mem_pattern=0");
}

TEST_CASE("what sessions tell is read: an arena grows by its extensions") {
  const ToldSessions told = ReadSessions(
      R"({"version": "1.31.1", "context": 7, "sessions": [{"used": [4, 8], "extensions": [[1, 2], [5]]},
          {"used": [], "extensions": [], "error": "no room"}],
          "requests": {"weights": [3], "runs": [[1, -2]]}})");
  CHECK(told.context_bytes == 7);
  REQUIRE(told.sessions.size() == 2);
  CHECK(told.sessions[0].arena_bytes == std::vector<int64_t>{3, 8});
  CHECK(told.sessions[1].error == "no room");
  CHECK(told.weights == std::vector<int64_t>{3});
  CHECK(told.runs == std::vector<std::vector<int64_t>>{{1, -2}});
  CHECK_THROWS_AS(ReadSessions("{\"sessions\": 3}"), Error);
}

}  // namespace
}  // namespace onnxfit::runtime_run_test
