#include "estimator/fit/verify.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/onnx/loader.h"
#include "tests/fake_gpus.h"
#include "tests/paths.h"

namespace onnxfit::verify_test {
namespace {

const std::string kRoot = kSourceDir;

std::string TextOf(const Verification& verification) {
  std::string text(ToString(verification.proof));
  text += '\n';
  for (const ProofRow& row : verification.rows) {
    text += fmt::format("{}: {} {}{}\n", row.what, row.predicted_bytes, row.measured_bytes,
                        row.holds ? "" : " no");
  }
  return text;
}

Verification LenetOn(Gpu& card, const VerifyLimits& limits = {}, const ReplayWatch& watch = {}) {
  EstimateRequest request;
  request.binding.batch = 64;
  return Verify(LoadGraph(kRoot + "/models/lenet.onnxtxt"), request, {.name = "a card"}, card,
                limits, watch);
}

TEST_CASE("a card that does what the allocator asks passes to the byte") {
  HostGpu card({.tells_process = true});
  const Verification verification = LenetOn(card);
  CHECK(TextOf(verification) ==
        "pass\n"
        "after setup: 2097152 2097152\n"
        "peak of steps 1-10: 27262976 27262976\n"
        "reserved - allocated: 4044800 4044800\n");
  CHECK(verification.exact_phases() == 31);
  CHECK(verification.measured.phases.size() == 31);
  CHECK(verification.measured.wrong_bytes == 0);
  CHECK(verification.estimate.peak.reserved_bytes == verification.rows[1].predicted_bytes);
  CHECK(verification.context_bytes == HostGpu::kContextBytes);
}

TEST_CASE("a card that takes more than it is asked for fails beyond the tolerance") {
  HostGpu card({.more_each_take = 512});
  CHECK(TextOf(LenetOn(card, {.steps = 3})) ==
        "pass\n"
        "after setup: 2097152 2097664\n"
        "peak of steps 1-3: 27262976 27265024\n"
        "reserved - allocated: 4044800 4046848\n");
  CHECK(TextOf(LenetOn(card, {.steps = 3, .tolerance = 0})) ==
        "fail\n"
        "after setup: 2097152 2097664 no\n"
        "peak of steps 1-3: 27262976 27265024 no\n"
        "reserved - allocated: 4044800 4046848 no\n");
  CHECK(LenetOn(card).exact_phases() == 0);
}

TEST_CASE("memory that somebody else writes to fails, whatever the figures are") {
  HostGpu card({.scribbles_at = 20});
  const Verification verification = LenetOn(card);
  CHECK(verification.proof == Proof::kFail);
  CHECK(verification.measured.wrong_bytes == 3);
  CHECK(verification.exact_phases() == 31);
}

TEST_CASE(
    "a full card is an answer: where, how much was asked and free, and that it was foreseen") {
  HostGpu card({.free_bytes = 23 * kMiB});
  const Verification verification = LenetOn(card);
  CHECK(TextOf(verification) ==
        "oom\n"
        "after setup: 2097152 2097152\n"
        "peak of step 1: 23068672 23068672\n");
  REQUIRE(verification.fails_at);
  const ProofFailure& fails_at = *verification.fails_at;
  CHECK(fails_at.was_predicted);
  CHECK(fails_at.failure.step == 1);
  CHECK(fails_at.failure.node != "");
  CHECK(fails_at.failure.asked_bytes > 0);
  CHECK(fails_at.free_bytes == kMiB);
  CHECK(fails_at.failure.short_bytes > 0);
}

// A single refusal with nothing cached that could go back.
TEST_CASE("a card that is full where there should be room fails") {
  struct Full : HostGpu {
    bool Take(int32_t segment, int64_t offset, int64_t bytes) override {
      return taken++ < 1 && HostGpu::Take(segment, offset, bytes);
    }
    int taken = 0;
  };
  Full card;
  const Verification verification = LenetOn(card);
  CHECK(verification.proof == Proof::kFail);
  REQUIRE(verification.fails_at);
  CHECK(!verification.fails_at->was_predicted);
  CHECK(verification.fails_at->free_bytes == 62 * kMiB);
}

TEST_CASE("what is stopped says so, with the terms until then") {
  HostGpu card;
  int steps = 0;
  const ReplayWatch watch = {.begins = [&](int32_t step, Phase) { steps = step; },
                             .is_stopped = [&] { return steps == 2; }};
  const Verification verification = LenetOn(card, {}, watch);
  CHECK(verification.proof == Proof::kStopped);
  CHECK(verification.rows.size() >= 2);
}

TEST_CASE("steps whose figures differ have lines of their own") {
  GpuReplay predicted;
  for (const int32_t step : {0, 1, 2, 3, 4}) {
    PhaseFigures phase = {.step = step, .phase = step ? Phase::kForward : Phase::kSetup};
    phase.peak.reserved_bytes = (step < 2 ? 100 : 200) * kMiB;
    phase.stats.reserved_bytes = phase.peak.reserved_bytes;
    phase.device_bytes = phase.peak.reserved_bytes;
    phase.peak_device_bytes = phase.device_bytes + (step == 4 ? 11 * kMiB : 0);
    predicted.phases.push_back(phase);
  }
  const GpuReplay measured = predicted;
  std::string text;
  for (const ProofRow& row : CompareReplays(predicted, measured, 0.05)) {
    text +=
        fmt::format("{} {:+}{}, ", row.what, row.difference_bytes() / kMiB, row.holds ? "" : " no");
  }
  CHECK(text ==
        "after setup +0, peak of step 1 +0, peak of steps 2-3 +0, peak of step 4 +11 no, "
        "reserved - allocated +11 no, ");
}

TEST_CASE("a page more is within any tolerance but 0") {
  GpuReplay predicted;
  predicted.phases = {{.step = 0, .phase = Phase::kSetup}};
  predicted.phases[0].stats.reserved_bytes = 8 * kMiB;
  GpuReplay measured = predicted;
  for (const int64_t more : {2 * kMiB, 2 * kMiB + 1}) {
    measured.phases[0].device_bytes = 8 * kMiB + more;
    CHECK(CompareReplays(predicted, measured, 0.05)[0].holds == (more == 2 * kMiB));
    CHECK(!CompareReplays(predicted, measured, 0)[0].holds);
  }
}

}  // namespace
}  // namespace onnxfit::verify_test
