// --cudnn-benchmark: what the first call of each convolution tries, and gives back.
#include "estimator/memory/plan_trials.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/timeline.h"
#include "estimator/report/estimate_parts.h"
#include "tests/parsed_options.h"
#include "tests/trace_helpers.h"

namespace onnxfit::plan_trials_test {
namespace {

// Both convolutions are one to cuDNN, but that x needs no gradient.
constexpr char kTwins[] = R"(
  net (float[4, 128, 7, 7] x) => (float[4, 128, 7, 7] y)
  < float[128, 128, 3, 3] a = ["location": "none"],
    float[128, 128, 3, 3] b = ["location": "none"] > {
    h = Conv <pads = [1, 1, 1, 1]> (x, a)
    y = Conv <pads = [1, 1, 1, 1]> (h, b)
  })";

const DeviceProfile kHopperCard = {.compute_capability = 90, .multiprocessors = 132};

TrainingSettings Benchmarked(const DeviceProfile& device) {
  return {
      .device = device, .optimizer = Optimizer::kSgd, .loss = Loss::kMse, .cudnn_benchmark = true};
}

Trace TraceOf(const TrainingSettings& settings) {
  return Train(Build(kTwins, settings).program, settings);
}

// What of its events is cuDNN's, a line a phase.
std::string CudnnEvents(const Trace& trace) {
  std::istringstream lines(ToString(trace));
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string phase, word, name, events;
    words >> phase;
    while (words >> word) {
      if (word.substr(1) != "cuDNN") continue;
      words >> name;
      events += " " + word.substr(0, 1) + name;
    }
    if (!events.empty()) found += phase + events + "\n";
  }
  return found;
}

// Segments of the card, freed or not.
Trace OfBlocks(const std::vector<Buffer>& buffers, const std::vector<int32_t>& calls) {
  Trace trace = {.events = {}, .buffers = buffers, .labels = {"a"}};
  for (const int32_t call : calls) {
    const auto type = call < 0 ? Event::Type::kFree : Event::Type::kAlloc;
    trace.events.push_back({.type = type, .id = call < 0 ? -call - 1 : call});
  }
  return trace;
}

// 60 MiB live, then a trial of 100.
Trace WithTrial() {
  Trace trace =
      OfBlocks({{.bytes = 60 * kMiB}, {.bytes = 100 * kMiB, .is_trial = true}, {.bytes = kMiB}},
               {0, 1, -2, 2});
  trace.cache_emptied_at = {3};
  return trace;
}

}  // namespace

// To the byte what torch 2.11.0 with cuDNN 9.19.0 took on an H200: the plans that are kept for
// gradients ask for nothing.
TEST_CASE("the first call of each convolution tries plans, before the one that is kept") {
  TrainingSettings settings = Benchmarked(kHopperCard);
  settings.steps = 2;
  CHECK(
      CudnnEvents(TraceOf(settings)) ==
      R"(forward +trials:39518208 -trials +workspace:690192 -workspace +workspace:690192 -workspace
backward +trials:75759616 -trials +trials:37849088 -trials
forward +workspace:690192 -workspace +workspace:690192 -workspace
)");
  settings.cudnn_benchmark = false;
  settings.steps = 1;
  CHECK(CudnnEvents(TraceOf(settings)) ==
        R"(forward +workspace:690192 -workspace +workspace:690192 -workspace
backward +workspace:2949120 -workspace +workspace:2949120 -workspace
)");
}

TEST_CASE("the cache is emptied behind each, also where nobody knows what it takes") {
  const Trace known = TraceOf(Benchmarked(kHopperCard));
  REQUIRE(known.cache_emptied_at.size() == 3);
  for (const int64_t at : known.cache_emptied_at) {
    const Event& before = known.events[static_cast<size_t>(at) - 1];
    CHECK(before.type == Event::Type::kFree);
    CHECK(known.buffers[static_cast<size_t>(before.id)].is_trial);
  }
  const Trace unknown = TraceOf(Benchmarked(DefaultDevice()));
  CHECK(unknown.cache_emptied_at.size() == 3);
  CHECK_FALSE(HasTrials(unknown));
  TrainingSettings settings = Benchmarked(kHopperCard);
  settings.cudnn_benchmark = false;
  CHECK(TraceOf(settings).cache_emptied_at.empty());
}

TEST_CASE("evaluation tries no plan that training has") {
  TrainingSettings settings = Benchmarked(kHopperCard);
  settings.evaluation.batch = 4;
  const auto made = [&] {
    const EstimateRequest request = {.settings = settings};
    return Predict(ParseGraph(kTwins), request).trace;
  };
  CHECK(made().cache_emptied_at.size() == 3);
}

TEST_CASE("what cuDNN 7's calls try was not measured") {
  TrainingSettings settings = Benchmarked(kHopperCard);
  for (const FrameworkProfile& framework : Frameworks()) {
    settings.framework = framework;
    CAPTURE(std::string(framework.name));
    const bool is_old = framework.name == "pytorch-1.10" || framework.name == "pytorch-1.13";
    CHECK(HasTrials(TraceOf(settings)) == !is_old);
  }
}

struct RoomRow {
  const char* name;
  int64_t room_bytes;
  int64_t bytes;
};

TEST_CASE("a trial takes what is left at most") {
  const RoomRow rows[] = {{"all that it wants", kGiB, 100 * kMiB},
                          {"just that", 160 * kMiB, 100 * kMiB},
                          {"less, in pages of 2 MiB", 111 * kMiB, 50 * kMiB},
                          {"less than the least segment", 79 * kMiB, 0},
                          {"beside what does not fit itself", 10 * kMiB, 0}};
  for (const RoomRow& row : rows) {
    CAPTURE(std::string(row.name));
    Trace trace = WithTrial();
    LimitTrials(row.room_bytes, {}, trace);
    CHECK(trace.buffers[1].bytes == row.bytes);
    CHECK(trace.buffers[0].bytes == 60 * kMiB);
  }
}

TEST_CASE("a trial that a cached block holds needs nothing of the card") {
  Trace trace =
      OfBlocks({{.bytes = 200 * kMiB}, {.bytes = 100 * kMiB, .is_trial = true}}, {0, -1, 1, -2});
  LimitTrials(200 * kMiB, {}, trace);
  CHECK(trace.buffers[1].bytes == 100 * kMiB);
}

TEST_CASE("--cudnn none: no plans are tried") {
  TrainingSettings settings = Benchmarked(kHopperCard);
  CHECK(HasTrials(TraceOf(settings)));
  settings.device.without_cudnn = true;
  CHECK_FALSE(HasTrials(TraceOf(settings)));
}

TEST_CASE("no run fails by a trial") {
  const Trace trace = WithTrial();
  const CardRun played = RunOnCard(trace, 100 * kMiB);
  CHECK(played.fits);
  CHECK(played.retries == 0);
  CHECK(played.peak_reserved_bytes == 62 * kMiB);  // and of the small block
  CHECK(PeakBlockBytes(ReadLoop(trace), BytesOf(trace)) == 61 * kMiB);
  CHECK(Replay(trace).peak.reserved_bytes == 160 * kMiB);
  CHECK(Replay(WithoutTrials(trace)).peak.reserved_bytes == 62 * kMiB);
}

TEST_CASE("a cache that is emptied in the first step is so on cards and endless ones") {
  const Trace trace = TraceOf(Benchmarked(kHopperCard));
  const Loop loop = ReadLoop(trace);
  CHECK(loop.repeats());
  CHECK(loop.cache_emptied_at.size() == 3);
  CHECK(RunOnCard(trace, kGiB).peak_reserved_bytes ==
        Replay(WithoutTrials(trace)).peak.reserved_bytes);
  EndlessPlays plays({});
  CHECK(plays.ReservedBytes(loop, BytesOf(trace), 10) ==
        RunOnCard(loop, BytesOf(trace), 10, {kGiB}).peak_reserved_bytes);
}

TEST_CASE("an estimate says how much of its peak trials are, its verdicts leave them out") {
  EstimateRequest request = {.settings = Benchmarked({})};
  request.targets = {MakeTarget({.card = FindCard("h200")})};
  request.settings.device = request.targets[0].device;
  const Estimate with = MakeEstimate(ParseGraph(kTwins), request);
  REQUIRE(with.trials);
  CHECK(with.trials->calls.all == 3);
  CHECK(with.trials->calls.known == 3);
  CHECK(with.trials->reserved_bytes > 50 * kMiB);
  const Judgement& judged = with.targets[0].judgement;
  CHECK(judged.verdict == Verdict::kFits);
  CHECK(judged.used_bytes == with.device_bytes - with.trials->reserved_bytes);
  CHECK(with.steps[0].peak.reserved_bytes > with.steps[1].peak.reserved_bytes);
  CHECK(TrialsText(with).find("first step: ") != std::string::npos);
  CHECK(with.warnings.empty());
  CHECK(std::ranges::any_of(with.assumptions, [](const std::string& text) {
    return text.find("; 3 then keep the plan that was the fastest on an H200") != text.npos;
  }));
}

TEST_CASE("which stage of a pipeline takes most is no matter of trials") {
  const Graph graph = ParseGraph(R"(
    net (float[4, 128, 7, 7] x) => (float[4, 128, 7, 7] y)
    < float[16, 4, 128, 7, 7] "a.scales" = ["location": "none"],
      float[128, 128, 3, 3] "b.weight" = ["location": "none"] > {
      ["/a/Mul"] m = Mul (x, "a.scales")
      ["/a/Constant"] first = Constant <value_ints = [0]> ()
      ["/a/ReduceSum"] h = ReduceSum <keepdims = 0> (m, first)
      ["/b/Conv"] y = Conv <pads = [1, 1, 1, 1]> (h, "b.weight")
    })");
  TrainingSettings settings = Benchmarked(kHopperCard);
  settings.loop.accumulate = 2;
  settings.ranks = {.strategy = Strategy::kPipeline, .world = 2, .pipeline = {.begins = {"b"}}};
  const Prediction prediction = Predict(graph, {.settings = settings});
  CAPTURE(prediction.program.assumptions.back());
  CHECK(prediction.program.assumptions.back().starts_with("the figures are those of stage 0"));
  settings.ranks.pipeline.stage = 1;
  const Prediction second = Predict(graph, {.settings = settings});
  CHECK(Replay(second.trace).peak.reserved_bytes > Replay(prediction.trace).peak.reserved_bytes);
}

TEST_CASE("what is not known is warned of") {
  const Estimate unknown =
      MakeEstimate(ParseGraph(kTwins), {.settings = Benchmarked(DefaultDevice())});
  REQUIRE(unknown.trials);
  CHECK(unknown.trials->calls.known == 0);
  CHECK(unknown.trials->reserved_bytes == 0);
  REQUIRE(unknown.warnings.size() == 1);
  CHECK(unknown.warnings[0].code == warning::kUnknownTrials);
  CHECK(unknown.warnings[0].text.find("of 3 of 3 calls") != std::string::npos);
  CHECK_FALSE(MakeEstimate(ParseGraph(kTwoLayers), {.settings = Benchmarked(kHopperCard)}).trials);
}

TEST_CASE("beside graphs, whose pools keep what trials take, it is refused") {
  CHECK(ErrorOf({"m.onnx", "--cudnn-benchmark"}).empty());
  CHECK(ErrorOf({"m.onnx", "--cudnn-benchmark", "--compile", "inductor", "--cuda-graphs"})
            .find("--cudnn-benchmark: expected without --cuda-graphs") != std::string::npos);
}

}  // namespace onnxfit::plan_trials_test
