#include "estimator/ranks/fully_sharded.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::fully_sharded_test {
namespace {

constexpr int64_t kMatrix = 64 * 64 * 4, kHead = 64 * 2 * 4, kRanks = 8;

TrainingSettings Sharded() {
  TrainingSettings settings;
  settings.ranks = {.strategy = Strategy::kFsdp, .world = kRanks};
  settings.steps = 2;
  return settings;
}

Trace RunOf(const TrainingSettings& settings) {
  return Train(Build(kTwoBlocks, settings).program, settings);
}

// What is asked for on a stream in one phase of the last step: "24576 24576".
std::string AskedOn(StreamId stream, Phase phase, const Trace& trace) {
  std::string text;
  bool is_there = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) is_there = event.id == 2 && event.phase == phase;
    if (event.type != Event::Type::kAlloc || !is_there) continue;
    const Buffer& buffer = trace.buffers[Index(event.id)];
    if (buffer.stream != stream) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", buffer.bytes);
  }
  return text;
}

// What is held before `step` begins.
int64_t HeldBefore(int32_t step, const Trace& trace) {
  int64_t bytes = 0;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase && event.id == step) break;
    if (event.type == Event::Type::kAlloc) bytes += trace.buffers[Index(event.id)].bytes;
    if (event.type == Event::Type::kFree) bytes -= trace.buffers[Index(event.id)].bytes;
  }
  return bytes;
}

TEST_CASE("of each parameter a rank keeps its rows") {
  CHECK(HeldBefore(1, RunOf(Sharded())) == (4 * kMatrix + kHead) / kRanks);
}

TEST_CASE("modules are gathered one after the other, on a stream of their own") {
  const Trace trace = RunOf(Sharded());
  CHECK(AskedOn(1, Phase::kForward, trace) ==
        fmt::format("{} {} {}", kHead, 2 * kMatrix, 2 * kMatrix));
  CHECK(AskedOn(1, Phase::kBackward, trace) == fmt::format("{0} {0}", 2 * kMatrix));
}

TEST_CASE("what stays unsharded is not gathered for backward") {
  TrainingSettings settings = Sharded();
  settings.ranks.fsdp_keep = true;
  CHECK(AskedOn(1, Phase::kBackward, RunOf(settings)).empty());
}

// The first block is given nothing that asks for gradients: its own come at the end, as the whole
// model's do.
TEST_CASE("gradients are scattered as a module's backward ends, on a stream of their own") {
  CHECK(AskedOn(2, Phase::kBackward, RunOf(Sharded())) ==
        fmt::format("{} {} {}", 2 * kMatrix / kRanks, kHead / kRanks, 2 * kMatrix / kRanks));
}

TEST_CASE("of a mesh of replicas the ranks of one share the model") {
  TrainingSettings settings = Sharded();
  settings.ranks.strategy = Strategy::kFsdpHybrid;
  settings.ranks.shard_world = 4;
  const Trace trace = RunOf(settings);
  CHECK(HeldBefore(1, trace) == (4 * kMatrix + kHead) / 4);
  CHECK(AskedOn(2, Phase::kBackward, trace) ==
        fmt::format("{} {} {}", 2 * kMatrix / 4, kHead / 4, 2 * kMatrix / 4));
}

// The root is gathered first in forward, and again in backward.
TEST_CASE("a smaller mesh has its shards between forward and backward") {
  TrainingSettings settings = Sharded();
  settings.ranks.fsdp_reshard = 2;
  const Trace trace = RunOf(settings);
  const std::string forward = AskedOn(0, Phase::kForward, trace);
  CHECK(forward.find(fmt::format("{0} {0}", kMatrix / 2)) != std::string::npos);
  CHECK(forward.find(fmt::format("{}", kHead / 2)) != std::string::npos);
  CHECK(AskedOn(1, Phase::kBackward, trace) ==
        fmt::format("{} {} {}", kHead, 2 * kMatrix, 2 * kMatrix));
  // Casts are of what each of the two has.
  settings.precision = Precision::kBf16;
  settings.ranks.fsdp_policy = true;
  CHECK(AskedOn(1, Phase::kBackward, RunOf(settings)) ==
        fmt::format("{} {} {} {} {} {}", kHead / 4, kHead / 2, kMatrix / 2, kMatrix, kMatrix / 2,
                    kMatrix));
}

TEST_CASE("a mesh of one keeps what is gathered, one of all reshards the whole model, too") {
  TrainingSettings settings = Sharded();
  settings.ranks.fsdp_reshard = 1;
  CHECK(AskedOn(1, Phase::kBackward, RunOf(settings)).empty());
  settings.ranks.fsdp_reshard = kRanks;
  CHECK(AskedOn(1, Phase::kBackward, RunOf(settings)) ==
        fmt::format("{} {} {}", kHead, 2 * kMatrix, 2 * kMatrix));
}

TEST_CASE("what is offloaded comes to the device a shard at a time, and steps on the host") {
  TrainingSettings settings = Sharded();
  settings.ranks.fsdp_offload = true;
  const Trace trace = RunOf(settings);
  CHECK(HeldBefore(1, trace) == 0);
  const int64_t shard = kMatrix / kRanks;
  CHECK(AskedOn(1, Phase::kBackward, trace) ==
        fmt::format("{0} {0} {1} {0} {0} {1}", shard, 2 * kMatrix));
  CHECK(AskedOn(0, Phase::kOptimizer, trace).empty());
  settings.precision = Precision::kBf16;
  settings.ranks.fsdp_policy = true;
  CHECK(AskedOn(1, Phase::kBackward, RunOf(settings)) ==
        fmt::format("{0} {1} {0} {1} {2} {0} {1} {0} {1} {2}", shard, shard / 2, kMatrix));
}

TEST_CASE("gradients that are not scattered yet are whole, under a policy in fp32") {
  TrainingSettings settings = Sharded();
  settings.loop.accumulate = 2;
  const auto kept = [&] {
    const Trace trace = RunOf(settings);
    CHECK(AskedOn(2, Phase::kBackward, trace) ==
          fmt::format("{} {} {}", 2 * kMatrix / kRanks, kHead / kRanks, 2 * kMatrix / kRanks));
    return HeldBefore(3, trace);
  };
  const std::string both = AskedOn(2, Phase::kBackward, RunOf(settings));
  CHECK(both == fmt::format("{0} {1} {0} {0} {1} {0}", 2 * kMatrix / kRanks, kHead / kRanks));
  const int64_t synced = HeldBefore(3, RunOf(settings));
  settings.ranks.no_sync = true;
  CHECK(kept() == synced);
  settings.precision = Precision::kBf16;
  settings.ranks.fsdp_policy = true;
  const std::string backward = [&] { return AskedOn(0, Phase::kBackward, RunOf(settings)); }();
  CHECK(backward.find(fmt::format("{}", kMatrix)) != std::string::npos);
}

TEST_CASE("accelerate scatters the last micro-batch's gradients alone") {
  TrainingSettings settings = Sharded();
  settings.loop = {.library = LoopLibrary::kAccelerate, .accumulate = 2};
  CHECK(AskedOn(2, Phase::kBackward, RunOf(settings)) ==
        fmt::format("{} {} {}", 2 * kMatrix / kRanks, kHead / kRanks, 2 * kMatrix / kRanks));
}

TEST_CASE("under a policy shards and gradients stay in fp32") {
  TrainingSettings settings = Sharded();
  settings.precision = Precision::kBf16;
  settings.ranks.fsdp_policy = true;
  const Trace trace = RunOf(settings);
  CHECK(HeldBefore(1, trace) == (4 * kMatrix + kHead) / kRanks);
  // The cast shards, then what is gathered of them.
  CHECK(AskedOn(1, Phase::kBackward, trace) ==
        fmt::format("{0} {1} {0} {1}", kMatrix / kRanks, kMatrix));
  CHECK(AskedOn(2, Phase::kBackward, trace) ==
        fmt::format("{} {} {}", 2 * kMatrix / kRanks, kHead / kRanks, 2 * kMatrix / kRanks));
}

TEST_CASE("recomputation gathers no more") {
  TrainingSettings settings = Sharded();
  const std::string plain = AskedOn(1, Phase::kBackward, RunOf(settings));
  settings.checkpoint = {kAutoCheckpoint};
  CHECK(AskedOn(1, Phase::kBackward, RunOf(settings)) == plain);
}

TEST_CASE("gradients of several batches add up in the shards of the first") {
  TrainingSettings settings = Sharded();
  const int64_t one = HeldBefore(2, RunOf(settings));
  settings.loop.accumulate = 2;
  CHECK(HeldBefore(2, RunOf(settings)) == one);
}

TEST_CASE("one rank alone gathers nothing") {
  TrainingSettings settings = Sharded();
  settings.ranks.world = 1;
  CHECK(AskedOn(1, Phase::kForward, RunOf(settings)).empty());
}

TEST_CASE("what is not known of sharded models is refused") {
  TrainingSettings settings = Sharded();
  settings.ema = true;
  CHECK_THROWS_WITH_AS(RunOf(settings), "--strategy: expected no --ema with fsdp", Error);
  settings = Sharded();
  Program program = Build(kTwoBlocks, settings).program;
  program.calls[1].checkpoint = 0;
  program.has_reentrant_checkpoints = true;
  CHECK_THROWS_WITH_AS(Train(program, settings),
                       "--strategy: expected no checkpoints with use_reentrant=True with fsdp, "
                       "found the file's own (try: --checkpoint auto)",
                       Error);
  settings = Sharded();
  settings.precision = Precision::kAmpFp16;
  settings.ranks.fsdp_offload = true;
  CHECK_THROWS_WITH_AS(
      RunOf(settings),
      "--fsdp-offload: expected no -p amp-fp16, whose scaler reads gradients on the device", Error);
}

}  // namespace
}  // namespace onnxfit::fully_sharded_test
