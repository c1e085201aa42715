#include "estimator/memory/gpu_replay.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/memory/segments.h"
#include "tests/fake_gpus.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::gpu_replay_test {
namespace {

struct Run {
  Trace trace;
  Loop loop;
  std::vector<int64_t> bytes;
};

Run RunOf(const Graph& graph, const TrainingSettings& settings, const DimBinding& binding = {}) {
  Run run;
  run.trace = Train(Build(graph, settings, binding).program, settings);
  run.loop = ReadLoop(run.trace);
  run.bytes = BytesOf(run.trace);
  return run;
}

GpuReplay Replayed(const Run& run, Gpu& gpu, int steps, const AllocatorConf& conf = {},
                   const ReplayWatch& watch = {}) {
  return ReplayOnGpu(run.trace, run.loop, run.bytes, steps, gpu, conf, watch);
}

// "forward 2: 2 MiB reserved, 2 MiB lost (most 2)": a line a phase.
std::string TextOf(const GpuReplay& replay) {
  std::string text;
  for (const PhaseFigures& phase : replay.phases) {
    text += fmt::format("{} {}: {} MiB reserved, {} MiB lost (most {})\n", phase.step,
                        ToString(phase.phase), phase.stats.reserved_bytes / kMiB,
                        phase.device_bytes / kMiB, phase.peak_device_bytes / kMiB);
  }
  return text;
}

// Two segments in all: one for the small tensors, one for cuBLAS's workspaces of 8.125 MiB,
// of which two fit into 20 MiB.
TEST_CASE("each phase says what the allocator has and what the card has lost") {
  const Run run = RunOf(ParseGraph(kTwoLayers), {});
  HostGpu gpu;
  const GpuReplay replay = Replayed(run, gpu, 3);
  CHECK(TextOf(replay) ==
        "0 setup: 2 MiB reserved, 2 MiB lost (most 2)\n"
        "1 forward: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "1 backward: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "1 optimizer: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "2 forward: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "2 backward: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "2 optimizer: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "3 forward: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "3 backward: 22 MiB reserved, 22 MiB lost (most 22)\n"
        "3 optimizer: 22 MiB reserved, 22 MiB lost (most 22)\n");
  CHECK(replay.before == MemoryReading{80 * kMiB, 64 * kMiB, std::nullopt});
  CHECK(replay.after == replay.before);
}

TEST_CASE("blocks hold what was written until they are freed") {
  const Run run = RunOf(ParseGraph(kTwoLayers), {});
  HostGpu gpu;
  const GpuReplay replay = Replayed(run, gpu, 10);
  CHECK(replay.blocks > 100);
  CHECK(replay.written_bytes > replay.blocks * 512);
  CHECK(replay.wrong_bytes == 0);

  HostGpu scribbled({.scribbles_at = 5});
  CHECK(Replayed(run, scribbled, 10).wrong_bytes == 3);
}

// The same allocator on another source: the counting one of estimates.
TEST_CASE("a replay reserves what an estimate predicts, to the byte, in every step") {
  const std::string root = kSourceDir;
  struct Row {
    const char* model;
    TrainingSettings settings;
    AllocatorConf conf;
  };
  const Row rows[] = {
      {"lenet.onnxtxt", {}, {}},
      {"resnet18.train.onnx", {.optimizer = Optimizer::kSgdMomentum}, {}},
      {"resnet18.train.onnx", {}, {.expandable_segments = true}},
      {"resnet50.train.onnx", {.precision = Precision::kAmpBf16}, {.max_split_bytes = 20 * kMiB}},
      {"gpt2.dynamo.onnx", {.loss = Loss::kCausalLm, .loop = {.accumulate = 2}}, {}},
      {"mlp_2000.onnxtxt", {.mode = Mode::kEval}, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.model);
    const Run run = RunOf(LoadGraph(root + "/models/" + row.model), row.settings);
    const Timeline timeline = Replay(run.trace, row.conf);
    const auto gpu = NewCountingGpu(int64_t{1} << 40, int64_t{1} << 40);
    const GpuReplay replay = Replayed(run, *gpu, run.loop.traced_steps(), row.conf);
    std::vector<Peak> peaks(timeline.steps.size());
    for (const PhaseFigures& phase : replay.phases) {
      CHECK(phase.device_bytes == phase.stats.reserved_bytes);
      CHECK(phase.peak_device_bytes == phase.peak.reserved_bytes);
      if (phase.step > 0) peaks[Index(phase.step - 1)].Raise(phase.peak);
    }
    for (size_t i = 0; i < peaks.size(); ++i) CHECK(peaks[i] == timeline.steps[i].peak);
    CHECK(replay.after == replay.before);
  }
}

TEST_CASE("at whichever segment the card is full, the replay says so and leaves it clean") {
  const std::string root = kSourceDir;
  const Run run = RunOf(LoadGraph(root + "/models/lenet.onnxtxt"), {}, {.batch = 512});
  for (const bool pages : {false, true}) {
    const AllocatorConf conf = {.expandable_segments = pages};
    int64_t failures = 0;
    for (int64_t n = 0; n < 40; ++n) {
      CAPTURE(n);
      // Full for good: a single refusal is retried after cached memory went back.
      HostGpu gpu({.free_bytes = n * 2 * kMiB, .total_bytes = 256 * kMiB});
      const GpuReplay replay = Replayed(run, gpu, 10, conf);
      CHECK(replay.after == replay.before);
      CHECK(replay.wrong_bytes == 0);
      if (!replay.failure) continue;
      ++failures;
      const GpuFailure& failure = *replay.failure;
      CHECK(failure.asked_bytes > 0);
      CHECK(failure.free_bytes + failure.stats.reserved_bytes == n * 2 * kMiB);
      CHECK(run.trace.events[failure.event].type == Event::Type::kAlloc);
    }
    CHECK(failures > 10);
    CHECK(failures < 40);
  }
}

TEST_CASE("a segment that is refused once is asked for again, as PyTorch does") {
  const Run run = RunOf(ParseGraph(kTwoLayers), {});
  HostGpu gpu({.fails_at = 1});
  const GpuReplay replay = Replayed(run, gpu, 3);
  CHECK(!replay.failure);
  CHECK(replay.retries == 1);
}

TEST_CASE("what the driver takes beside segments is seen") {
  const Run run = RunOf(ParseGraph(kTwoLayers), {});
  HostGpu gpu({.more_each_take = kMiB});
  const GpuReplay replay = Replayed(run, gpu, 2);
  CHECK(replay.phases.back().stats.reserved_bytes == 22 * kMiB);
  CHECK(replay.phases.back().device_bytes == 24 * kMiB);
  CHECK(replay.phases.back().peak_device_bytes == 24 * kMiB);
}

TEST_CASE("what other processes take meanwhile is not ours") {
  const Run run = RunOf(ParseGraph(kTwoLayers), {});
  HostGpu gpu({.tells_process = true, .others_grow_each = 3 * kMiB});
  const GpuReplay replay = Replayed(run, gpu, 2);
  CHECK(replay.phases.back().device_bytes == 22 * kMiB);
  CHECK(replay.phases.back().peak_device_bytes == 22 * kMiB);
  CHECK(replay.phases.back().others_bytes == 6 * kMiB);

  HostGpu silent({.others_grow_each = 3 * kMiB});  // nobody tells them apart
  CHECK(Replayed(run, silent, 2).phases.back().device_bytes == 28 * kMiB);
}

TEST_CASE("a replay that is stopped gives all back") {
  const Run run = RunOf(ParseGraph(kTwoLayers), {});
  for (const int calls : {0, 1, 7, 50}) {
    CAPTURE(calls);
    HostGpu gpu;
    int asked = 0;
    std::string begun;
    const ReplayWatch watch = {
        .begins = [&](int32_t step,
                      Phase phase) { begun += fmt::format("{} {} ", step, ToString(phase)); },
        .is_stopped = [&] { return asked++ == calls; }};
    const GpuReplay replay = Replayed(run, gpu, 3, {}, watch);
    CHECK(replay.was_stopped);
    CHECK(!replay.failure);
    CHECK(begun.starts_with("0 setup "));
    CHECK(replay.after == replay.before);
  }
}

}  // namespace
}  // namespace onnxfit::gpu_replay_test
