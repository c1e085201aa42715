#include "estimator/memory/card_run.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/memory/timeline.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"
#include "tests/trace_writer.h"

namespace onnxfit::card_run_test {
namespace {

constexpr int64_t kCardBytes = 8589934592;

std::string Outcome(const CardRun& run) {
  return run.fits ? std::to_string(run.retries) : "oom " + std::to_string(run.failed_step);
}

std::string AllOf(const CardRun& run) {
  return fmt::format("{} {} {} {} {}", run.fits, run.retries, run.peak_reserved_bytes,
                     run.failed_step, run.asked_bytes);
}

// Ten steps of PyTorch on a card of 8 GiB, at batches around the largest that trained.
TEST_CASE("a card of 8 GiB runs and dies where PyTorch did, with as many retries") {
  const std::string root = kSourceDir;
  const TrainingSettings settings = {.steps = 3};
  std::ifstream file(root + "/tests/data/card_of_8_gib.txt");
  std::map<std::string, Graph> graphs;
  int runs = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    CAPTURE(line);
    std::istringstream words(line);
    std::string model;
    int64_t batch = 0;
    words >> model >> batch;
    const std::string expected = line.substr(line.find(' ', model.size() + 1) + 1);
    if (!graphs.contains(model)) graphs[model] = LoadGraph(root + "/models/" + model + ".onnx");
    const PreparedRun built = Build(graphs.at(model), settings, {.batch = batch});
    const Trace trace = Train(built.program, settings);
    const CardRun run = RunOnCard(ReadLoop(trace), BytesOf(trace), 10, {kCardBytes});
    CHECK(Outcome(run) == expected);
    ++runs;
  }
  CHECK(runs == 110);
}

// What a repeated step does is what traced ones would do: on cards around those that are too
// small, with loops that carry more than one batch from step to step.
TEST_CASE("three traced steps stand for ten") {
  const std::string root = kSourceDir;
  const LoopSettings loops[] = {{},
                                {.hold_outputs = true},
                                {.accumulate = 3},
                                {.zero_grad = ZeroGrad::kKeep},
                                {.prefetch = 2}};
  for (const char* model : {"lenet.onnxtxt", "vgg_small.onnxtxt", "resnet18.train.onnx"}) {
    const Graph graph = LoadGraph(root + "/models/" + model);
    for (const LoopSettings& loop : loops) {
      TrainingSettings settings = {.loop = loop, .steps = 3};
      const PreparedRun built = Build(graph, settings, {.batch = 24});
      const Trace three = Train(built.program, settings);
      settings.steps = 10;
      const Trace ten = Train(built.program, settings);
      const Loop repeated = ReadLoop(three);
      CHECK(repeated.repeats() == (loop.prefetch < 2));
      if (!repeated.repeats()) continue;
      const int64_t most = Replay(ten).peak.reserved_bytes;
      for (int64_t bytes = most / 2; bytes < most + 4 * kMiB; bytes += most / 32) {
        const CardRun run = RunOnCard(repeated, BytesOf(three), 10, {bytes});
        CHECK(AllOf(run) == AllOf(RunOnCard(ten, bytes)));
      }
    }
  }
}

// Each step gives back what the one before made: the second does what the first did, and nothing
// says yet that a third will.
TEST_CASE("two steps do not say that a third repeats them") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("x", 2000, Kind::kInput);
  for (int32_t step = 1; step <= 3; ++step) {
    writer.Enter(step, Phase::kForward).Alloc("x", 2000, Kind::kInput).Free(step - 1);
    CHECK(ReadLoop(writer.trace()).repeats() == (step == 3));
  }
}

// A loop of random buffers of 1 to 30 MiB, some of which the next step gives back.
Trace RandomLoop(unsigned seed, int32_t steps) {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("w", 32 << 20, Kind::kParameter);
  std::vector<BufferId> left;
  for (int32_t step = 1; step <= steps; ++step) {
    std::mt19937 random(seed);  // of the step, not of the loop
    writer.Enter(step, Phase::kForward);
    std::vector<BufferId> live;
    std::vector<BufferId> kept;
    for (int i = 0; i < 7; ++i) {
      writer.Alloc("b", static_cast<int64_t>(1 + random() % 30) << 20, Kind::kTemporary);
      const auto made = static_cast<BufferId>(writer.trace().buffers.size()) - 1;
      (random() % 3 == 0 ? kept : live).push_back(made);
      if (i == 4) {
        for (const BufferId old : left) writer.Free(old);
      }
      if (random() % 2 == 0 && !live.empty()) {
        const size_t at = random() % live.size();
        writer.Free(live[at]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    for (const BufferId last : live) writer.Free(last);
    left = kept;
  }
  return writer.trace();
}

TEST_CASE("so they do whatever the loop and the card") {
  int64_t retries = 0;
  for (unsigned seed = 1; seed <= 700; ++seed) {
    const Trace ten = RandomLoop(seed, 10);
    const Loop repeated = ReadLoop(RandomLoop(seed, 3));
    REQUIRE(repeated.repeats());
    Loop written = ReadLoop(ten);
    written.twins.clear();  // played to the end
    const std::vector<int64_t> bytes = BytesOf(ten);
    for (int64_t mebibytes = 80; mebibytes <= 220; mebibytes += 4) {
      CAPTURE(seed);
      CAPTURE(mebibytes);
      const CardRun shortened = RunOnCard(repeated, bytes, 10, {mebibytes << 20});
      const CardRun whole = RunOnCard(written, bytes, 10, {mebibytes << 20});
      CHECK(shortened.fits == whole.fits);
      CHECK(shortened.failed_step == whole.failed_step);
      CHECK(shortened.retries == whole.retries);
      CHECK(shortened.peak_reserved_bytes == whole.peak_reserved_bytes);
      retries += whole.fits ? whole.retries : 0;
    }
  }
  CHECK(retries > 100);
}

TEST_CASE("where it fails is said") {
  const TrainingSettings settings = {.optimizer = Optimizer::kSgd, .steps = 1};
  const Trace trace = Train(Build(R"(net (float[1024, 1024] x) => (float[1024, 1024] y)
               < float[1024, 1024] w = ["location": "none"] > { ["fc"] y = MatMul (x, w) })",
                                  settings)
                                .program,
                            settings);
  const CardRun run = RunOnCard(trace, 10 << 20);  // less than one segment of 20 MiB
  CHECK_FALSE(run.fits);
  CHECK(run.failed_step == 0);
  CHECK(PlaceOf(trace, run.failed_event).phase == Phase::kSetup);
  CHECK(run.asked_bytes == 1024 * 1024 * 4);
  const CardRun later = RunOnCard(trace, 24 << 20);
  CHECK_FALSE(later.fits);
  CHECK(later.failed_step == 1);
  const TracePlace place = PlaceOf(trace, later.failed_event);
  CHECK(trace.labels[static_cast<size_t>(place.at)] == "fc");
  CHECK(RunOnCard(trace, 64 << 20).fits);
}

}  // namespace
// PyTorch goes on to cuDNN's next plan where one does not get its workspace (try_configs of
// aten/src/ATen/native/cudnn/Conv_v8.cpp).
TEST_CASE("what may fail makes no run fail, and what is cached goes back to the card for it") {
  const std::vector<Buffer> buffers = {
      {.bytes = 60 * kMiB}, {.bytes = 100 * kMiB, .may_fail = true}, {.bytes = 50 * kMiB}};
  Trace trace = {.events = {}, .buffers = buffers, .labels = {"a"}};
  for (const BufferId id : {0, 1, 2}) {
    trace.events.push_back({.type = Event::Type::kAlloc, .id = id});
    trace.events.push_back({.type = Event::Type::kFree, .id = id});
  }
  struct Row {
    int64_t card_bytes;
    const char* outcome;
    int64_t reserved_bytes;
  };
  const Row rows[] = {{200 * kMiB, "0", 160 * kMiB},
                      {110 * kMiB, "1", 100 * kMiB},
                      {90 * kMiB, "1", 60 * kMiB},
                      {40 * kMiB, "oom 0", 0}};
  for (const Row& row : rows) {
    CAPTURE(row.card_bytes);
    const CardRun run = RunOnCard(trace, row.card_bytes);
    CHECK(Outcome(run) == row.outcome);
    CHECK(run.peak_reserved_bytes == row.reserved_bytes);
  }
  CHECK(PeakBlockBytes(ReadLoop(trace), BytesOf(trace)) == 60 * kMiB);
}

TEST_CASE("pools apart reserve what they do together, on a card that is never full") {
  const std::string root = kSourceDir;
  AllocatorConf rounded;
  rounded.roundup_divisions.fill(4);
  for (const char* model : {"lenet.onnxtxt", "vgg_small.onnxtxt", "resnet18.train.onnx"}) {
    const Graph graph = LoadGraph(root + "/models/" + model);
    for (const AllocatorConf& conf : {AllocatorConf(), rounded}) {
      EndlessPlays plays(conf);
      for (const int64_t batch : {1, 24, 25, 24, 200}) {
        CAPTURE(batch);
        const PreparedRun built = Build(graph, {}, {.batch = batch});
        const Trace trace = Train(built.program, {});
        const Loop loop = ReadLoop(trace);
        const CardRun together =
            RunOnCard(loop, BytesOf(trace), 10, {std::numeric_limits<int64_t>::max()}, conf);
        CHECK(plays.ReservedBytes(loop, BytesOf(trace), 10) == together.peak_reserved_bytes);
      }
    }
  }
}

}  // namespace onnxfit::card_run_test
