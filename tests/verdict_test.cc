#include "estimator/fit/verdict.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/bytes.h"
#include "estimator/base/missing_bytes.h"
#include "estimator/base/nccl.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/trace_writer.h"

namespace onnxfit::verdict_test {
namespace {

// What happens in a step, in buffers that are whole segments: one of 10 MiB or more, of a
// multiple of 2 MiB, is asked of the card as it is.
using Script = void (*)(TraceWriter&, BufferId first);

// 32 MiB of parameters, then ten times `script`.
Trace TenSteps(Script script) {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("w", 32 * kMiB, Kind::kParameter);
  for (int32_t step = 1; step <= kVerdictSteps; ++step) {
    writer.Enter(step, Phase::kForward).At("fc");
    script(writer, static_cast<BufferId>(writer.trace().buffers.size()));
  }
  return writer.trace();
}

void OneBuffer(TraceWriter& writer, BufferId first) {
  writer.Alloc("a", 20 * kMiB, Kind::kTemporary).Free(first);
}
constexpr int64_t kOneBuffer = 52 * kMiB;  // what OneBuffer reserves

// 12, then 20 MiB: the 12 cannot be used for the 20, and go back where the card is full.
void Growing(TraceWriter& writer, BufferId first) {
  writer.Alloc("a", 12 * kMiB, Kind::kTemporary).Free(first);
  writer.At("fc2").Alloc("b", 20 * kMiB, Kind::kTemporary).Free(first + 1);
}
constexpr int64_t kGrowing = 64 * kMiB;       // with both
constexpr int64_t kLeastGrowing = 52 * kMiB;  // the larger one alone

struct Played {
  explicit Played(Script script) : trace(TenSteps(script)), loop(ReadLoop(trace)) {}

  PlayableRun run(const AllocatorConf& conf = {}, int64_t unmodelled_bytes = 0) const {
    return {&trace, &loop, BytesOf(trace), conf, unmodelled_bytes, false};
  }

  Trace trace;
  Loop loop;
};

Target CardOf(int64_t total_bytes, const ContextBytes& context = {}) {
  Target target = {.name = "card", .device = DefaultDevice(), .total_bytes = total_bytes};
  target.device.context = context;
  return target;
}

// The verdict and what it says: "tight: why, why".
std::string Text(const Judgement& judgement) {
  std::string text(ToString(judgement.verdict));
  for (size_t i = 0; i < judgement.reasons.size(); ++i) {
    text += (i == 0 ? ": " : "; ") + judgement.reasons[i];
  }
  return text;
}

Judgement JudgeLoop(const char* model, int64_t batch, const Target& target) {
  const Graph graph = LoadGraph(std::string(kSourceDir) + "/models/" + model);
  EstimateRequest request;
  request.binding.batch = batch;
  return Judge(PredictLoop(graph, request).playable(), target);
}

}  // namespace

TEST_CASE("a card as large as what is reserved is tight, one of 8 MiB more fits") {
  struct Row {
    int64_t more_bytes;
    const char* expected;
  };
  const Row rows[] = {
      {-20 * kMiB, "oom"},
      {-2 * kMiB, "oom"},
      {-1, "oom"},
      {0, "tight: with 2 MiB less it fails in step 1"},
      {1, "tight: with 2 MiB less it fails in step 1"},
      {2 * kMiB - 1, "tight: with 2 MiB less it fails in step 1"},
      {2 * kMiB, "tight: with 4 MiB less it fails in step 1"},
      {4 * kMiB - 1, "tight: with 4 MiB less it fails in step 1"},
      {4 * kMiB, "tight: with 8 MiB less it fails in step 1"},
      {8 * kMiB - 1, "tight: with 8 MiB less it fails in step 1"},
      {8 * kMiB, "fits"},
      {8 * kMiB + 1, "fits"},
      {900 * kGiB, "fits"},
  };
  const Played played(OneBuffer);
  for (const Row& row : rows) {
    CAPTURE(row.more_bytes);
    const Target target = CardOf(kOneBuffer + row.more_bytes);
    const Judgement judgement = Judge(played.run(), target);
    CHECK(Text(judgement) == row.expected);
    CHECK(RunsOn(played.run(), target) == (row.more_bytes >= 0));
    CHECK(judgement.used_bytes == kOneBuffer);
    CHECK(judgement.usable_bytes == kOneBuffer + row.more_bytes);
    CHECK(judgement.retries == (row.more_bytes < 0 ? 1 : 0));  // tried before it fails
    CHECK(judgement.fails_at.has_value() == (row.more_bytes < 0));
    CHECK(!judgement.processes.has_value());
  }
}

// Larger cards first, then smaller ones, then those between: what was found on one is used for
// others.
TEST_CASE("what was played before changes no verdict") {
  AllocatorConf pages;
  pages.expandable_segments = true;
  AllocatorConf share;
  share.memory_fraction = 0.5;
  AllocatorConf unsplit;
  unsplit.max_split_bytes = 24 * kMiB;
  for (const Script script : {OneBuffer, Growing}) {
    const Played played(script);
    for (const AllocatorConf& conf : {AllocatorConf(), pages, share, unsplit}) {
      PlayableRun run = played.run(conf, 3 * kMiB);
      run.known = NewKnownPlays(std::make_shared<EndlessPlays>(conf));
      for (const int64_t mebibytes : {90, 200, 40, 58, 66, 52, 64, 60, 72,  75, 63, 76, 140, 128,
                                      44, 62,  50, 73, 74, 61, 12, 56, 130, 65, 70, 68, 67,  71}) {
        CAPTURE(mebibytes);
        const Target target = CardOf(mebibytes * kMiB);
        const Judgement judgement = Judge(run, target);
        const Judgement fresh = Judge(played.run(conf, 3 * kMiB), target);
        CHECK(Text(judgement) == Text(fresh));
        CHECK(judgement.used_bytes == fresh.used_bytes);
        CHECK(judgement.retries == fresh.retries);
        CHECK(RunsOn(run, target) == (fresh.verdict != Verdict::kOom));
        CHECK(FitsOn(run, target) == (fresh.verdict == Verdict::kFits));
        CHECK(FitsOn(played.run(conf, 3 * kMiB), target) == (fresh.verdict == Verdict::kFits));
      }
    }
  }
}

TEST_CASE("what is cached goes back first, which is tight") {
  struct Row {
    int64_t total_bytes;
    int64_t retries;
    int64_t used_bytes;
    const char* expected;
  };
  const char* once =
      "tight: the card is full once in 10 steps: cached memory goes back first, which takes time";
  const Row rows[] = {
      {kLeastGrowing - 1, 1, kGrowing, "oom"},
      {kLeastGrowing, 1, kLeastGrowing, once},
      {kGrowing - 1, 1, kLeastGrowing, once},
      {kGrowing, 0, kGrowing, "tight: with 2 MiB less it needs retries"},
      {kGrowing + 2 * kMiB, 0, kGrowing, "tight: with 4 MiB less it needs retries"},
      {kGrowing + 8 * kMiB - 1, 0, kGrowing, "tight: with 8 MiB less it needs retries"},
      {kGrowing + 8 * kMiB, 0, kGrowing, "fits"},
  };
  const Played played(Growing);
  for (const Row& row : rows) {
    CAPTURE(row.total_bytes);
    const Judgement judgement = Judge(played.run(), CardOf(row.total_bytes));
    CHECK(Text(judgement) == row.expected);
    CHECK(judgement.used_bytes == row.used_bytes);
    if (judgement.verdict != Verdict::kOom) CHECK(judgement.retries == row.retries);
  }
}

TEST_CASE("where it fails is said: step, phase, operator, what was asked and what was short") {
  const Played played(Growing);
  const Judgement first = Judge(played.run(), CardOf(kLeastGrowing - 3 * kMiB));
  REQUIRE(first.fails_at.has_value());
  CHECK(first.fails_at->step == 1);
  CHECK(first.fails_at->phase == Phase::kForward);
  CHECK(first.fails_at->node == "fc2");
  CHECK(first.fails_at->asked_bytes == 20 * kMiB);
  CHECK(first.fails_at->short_bytes == 3 * kMiB);
  const Judgement setup = Judge(played.run(), CardOf(30 * kMiB));
  REQUIRE(setup.fails_at.has_value());
  CHECK(setup.fails_at->step == 0);
  CHECK(setup.fails_at->phase == Phase::kSetup);
  CHECK(setup.fails_at->node.empty());
  CHECK(setup.fails_at->asked_bytes == 32 * kMiB);
  CHECK(setup.fails_at->short_bytes == 2 * kMiB);
  CHECK(setup.used_bytes == kGrowing);
}

TEST_CASE("the high end of the context has to leave room, to the byte") {
  const ContextBytes context = {100 * kMiB, 90 * kMiB, 116 * kMiB, Basis::kMeasured};
  const Played played(OneBuffer);
  const auto judge = [&](int64_t total) { return Judge(played.run(), CardOf(total, context)); };
  const int64_t enough = kOneBuffer + context.high;
  CHECK(Text(judge(enough)) == "fits");
  CHECK(Text(judge(enough - 1)) ==
        "tight: context and others may take 16.0 MiB more: then 1 B are missing");
  CHECK(Text(judge(kOneBuffer + context.bytes)) ==
        "tight: with 2 MiB less it fails in step 1; "
        "context and others may take 16.0 MiB more: then 16.0 MiB are missing");
  CHECK(Text(judge(kOneBuffer + context.bytes - 1)) == "oom");
  const Judgement judgement = judge(enough);
  CHECK(judgement.usable_bytes == enough);
  CHECK(judgement.used_bytes == kOneBuffer + context.bytes);
  CHECK(judgement.low_bytes == kOneBuffer + context.low);
  CHECK(judgement.high_bytes == kOneBuffer + context.high);
  CHECK(judgement.share() == doctest::Approx(152.0 / 168.0));
}

TEST_CASE("what cuDNN may ask for turns what fits into tight, never into out of memory") {
  const Played played(OneBuffer);
  const auto judge = [&](int64_t total, int64_t workspaces, const ContextBytes& context = {}) {
    return Judge(played.run({}, workspaces), CardOf(total, context));
  };
  const int64_t total = kOneBuffer + 24 * kMiB;
  CHECK(Text(judge(total, 24 * kMiB)) == "fits");
  CHECK(Text(judge(total, 24 * kMiB + 1)) ==
        "tight: cuDNN may ask for up to 24.0 MiB: then 1 B are missing");
  CHECK(judge(total, 900 * kGiB).verdict == Verdict::kTight);
  CHECK(judge(total, 5 * kMiB).high_bytes == kOneBuffer + 5 * kMiB);
  CHECK(judge(total, 5 * kMiB).used_bytes == kOneBuffer);
  CHECK(Text(judge(total + 12 * kMiB, 16 * kMiB, {12 * kMiB, 12 * kMiB, 22 * kMiB, {}})) ==
        "tight: context and others may take 10.0 MiB more, cuDNN may ask for up to 16.0 MiB: "
        "then 2.00 MiB are missing");
}

TEST_CASE("what NCCL may ask for is told beside it") {
  const Played played(OneBuffer);
  PlayableRun run = played.run({}, 16 * kMiB);
  run.nccl_bytes = 8 * kMiB;
  CHECK(Text(Judge(run, CardOf(kOneBuffer + 24 * kMiB, {}))) == "fits");
  CHECK(Text(Judge(run, CardOf(kOneBuffer + 22 * kMiB, {}))) ==
        "tight: cuDNN may ask for up to 16.0 MiB, NCCL may ask for up to 8.00 MiB: then 2.00 MiB "
        "are missing");
}

TEST_CASE("what NCCL may ask for is of ranks that train, unless the context is told") {
  TrainingSettings settings;
  CHECK(MostNcclBytes(settings, false) == 0);
  settings.ranks.strategy = Strategy::kDdp;
  CHECK(MostNcclBytes(settings, false) == NcclMuchBytes());
  CHECK(MostNcclBytes(settings, true) == 0);
  settings.ranks.world = 1;
  CHECK(MostNcclBytes(settings, false) == 0);
  settings.mode = Mode::kEval;
  settings.ranks.tensor_parallel = 2;
  CHECK(MostNcclBytes(settings, false) == NcclMuchBytes());
}

// Each dimension of a mesh sends by a communicator of its own.
TEST_CASE("what NCCL may ask for is of each group that a rank is of") {
  const auto count = [](Strategy strategy, int64_t tensor_parallel, int64_t shard_world = 8) {
    TrainingSettings settings;
    settings.ranks.strategy = strategy;
    settings.ranks.world = 8;
    settings.ranks.shard_world = shard_world;
    settings.ranks.tensor_parallel = tensor_parallel;
    return MostNcclBytes(settings, false) / NcclMuchBytes();
  };
  CHECK(count(Strategy::kFsdp, 1) == 1);
  CHECK(count(Strategy::kFsdp, 2) == 2);
  CHECK(count(Strategy::kFsdpHybrid, 1, 4) == 2);
  CHECK(count(Strategy::kFsdpHybrid, 1, 8) == 1);
  CHECK(count(Strategy::kFsdpHybrid, 1, 1) == 1);
  CHECK(count(Strategy::kFsdpHybrid, 2, 4) == 3);
  TrainingSettings settings;
  settings.ranks = {.strategy = Strategy::kFsdp, .world = 8, .fsdp_reshard = 4};
  CHECK(CountCommunicators(settings) == 2);
}

TEST_CASE("what a file names without sizes makes what fits tight, and nothing else") {
  const Played played(OneBuffer);
  PlayableRun run = played.run();
  const Target roomy = CardOf(kOneBuffer + 100 * kMiB);
  CHECK(Text(Judge(run, roomy)) == "fits");
  CHECK(FitsOn(run, roomy));
  const Warnings another = {{"OF101", "another"}};
  run.missing = MissingBytesOf({&another});
  CHECK(Text(Judge(run, roomy)) == "fits");
  const Warnings unsized = {{warning::kUnsizedTensors, "3 parameters …"}};
  run.missing = MissingBytesOf({&another, &unsized});
  CHECK(Text(Judge(run, roomy)) ==
        "tight: parameters whose sizes the file does not say are not counted (OF115)");
  CHECK_FALSE(FitsOn(run, roomy));
  CHECK(RunsOn(run, roomy));
  CHECK(Judge(run, CardOf(kOneBuffer - 1)).verdict == Verdict::kOom);
}

TEST_CASE("a loop that is counted once never fits") {
  const Played played(OneBuffer);
  PlayableRun run = played.run();
  const Warnings once = {{warning::kCountedOnce, "the Loop …"}};
  run.missing = MissingBytesOf({&once});
  CHECK(Text(Judge(run, CardOf(kOneBuffer + 100 * kMiB))) ==
        "tight: the body of a loop is counted once (OF117)");
  CHECK_FALSE(FitsOn(run, CardOf(kOneBuffer + 100 * kMiB)));
}

TEST_CASE("what an operator without a rule may take has room where it fits") {
  const Played played(OneBuffer);
  PlayableRun run = played.run();
  const Warnings unknown = {{warning::kUnknownOperator, "no rule for …"},
                            {warning::kUnknownOperator, "no rule for …"}};
  run.missing = MissingBytesOf({&unknown});
  CHECK(run.missing.bounded.size() == 1);
  const Target roomy = CardOf(2 * kOneBuffer);
  CHECK(Text(Judge(run, roomy)) == "fits");
  CHECK(FitsOn(run, roomy));
  const Target narrow = CardOf(2 * kOneBuffer - 1 * kMiB);
  CHECK(Text(Judge(run, narrow)) ==
        "tight: operators without a rule may take more (OF102): for as much again 1.00 MiB are "
        "missing");
  CHECK_FALSE(FitsOn(run, narrow));
}

TEST_CASE("shares of others come off first, their high end decides") {
  const Played played(OneBuffer);
  Target target = CardOf(kOneBuffer + 40 * kMiB);
  target.shares = {{"desktop", 10 * kMiB, 5 * kMiB, 30 * kMiB, Basis::kAssumed},
                   {"others", 10 * kMiB, 10 * kMiB, 10 * kMiB, Basis::kAssumed}};
  const Judgement judgement = Judge(played.run(), target);
  CHECK(Text(judgement) == "fits");
  CHECK(judgement.usable_bytes == kOneBuffer + 20 * kMiB);
  target.total_bytes -= 1;
  CHECK(Judge(played.run(), target).verdict == Verdict::kTight);
  target.total_bytes = kOneBuffer + 20 * kMiB - 1;
  CHECK(Judge(played.run(), target).verdict == Verdict::kOom);
}

TEST_CASE("a memory fraction is one of the whole card, its context included") {
  const AllocatorConf half = {.memory_fraction = 0.5};
  struct Row {
    int64_t total_bytes;
    int64_t context_bytes;
    const char* expected;
  };
  const Row rows[] = {
      {2 * kOneBuffer - 2, 0, "oom"},
      {2 * kOneBuffer, 0, "tight: with 2 MiB less it fails in step 1"},
      {2 * kOneBuffer + 4 * kMiB, 0, "tight: with 8 MiB less it fails in step 1"},
      {2 * kOneBuffer + 8 * kMiB - 2, 0, "tight: with 8 MiB less it fails in step 1"},
      {2 * kOneBuffer + 8 * kMiB, 0, "fits"},
      {2 * kOneBuffer + 8 * kMiB, 20 * kMiB, "fits"},
      {2 * kOneBuffer - 2, 20 * kMiB, "oom"},
  };
  const Played played(OneBuffer);
  for (const Row& row : rows) {
    CAPTURE(row.total_bytes);
    CAPTURE(row.context_bytes);
    const int64_t context = row.context_bytes;
    const Judgement judgement =
        Judge(played.run(half), CardOf(row.total_bytes, {context, context, context, {}}));
    CHECK(Text(judgement) == row.expected);
    CHECK(judgement.used_bytes == kOneBuffer + context);
  }
}

TEST_CASE("a fraction of nothing is out of memory, by what an endless card would be asked for") {
  const Played played(OneBuffer);
  const Judgement judgement = Judge(played.run({.memory_fraction = 0}), CardOf(80 * kGiB));
  CHECK(judgement.verdict == Verdict::kOom);
  CHECK(judgement.used_bytes == kOneBuffer);
}

TEST_CASE("processes fit side by side with the high end of a context each") {
  const ContextBytes context = {100 * kMiB, 90 * kMiB, 108 * kMiB, Basis::kMeasured};
  constexpr int64_t kEach = 160 * kMiB;
  struct Row {
    int64_t total_bytes;
    int64_t processes;
  };
  const Row rows[] = {{10 * kEach, 10},
                      {10 * kEach - 1, 9},
                      {2 * kEach - 1, 1},
                      {kEach, 1},
                      {kEach - 1, 1},  // tight: the likely context fits
                      {kOneBuffer + context.bytes, 1},
                      {kOneBuffer + context.bytes - 1, 0}};
  const Played played(OneBuffer);
  for (const Row& row : rows) {
    CAPTURE(row.total_bytes);
    PlayableRun run = played.run();
    run.is_inference = true;
    Target target = CardOf(row.total_bytes + 50 * kMiB, context);
    target.shares = {{"others", 50 * kMiB, 50 * kMiB, 50 * kMiB, Basis::kAssumed}};
    CHECK(Judge(run, target).processes == row.processes);
  }
}

TEST_CASE("copies in one process: their parameters each, the rest and the context once") {
  const ContextBytes context = {100 * kMiB, 100 * kMiB, 100 * kMiB, Basis::kMeasured};
  const Played played(OneBuffer);
  const auto copies = [&](int64_t capacity) {
    PlayableRun run = played.run();
    run.is_inference = true;
    return Judge(run, CardOf(capacity + context.bytes, context)).copies;
  };
  for (const int64_t count : {1, 2, 3, 7, 100}) {
    CAPTURE(count);
    const int64_t needed = count * 32 * kMiB + 20 * kMiB;
    CHECK(copies(needed) == count);
    CHECK(copies(needed - 1) == count - 1);
    CHECK(copies(needed + 32 * kMiB - 1) == count);
  }
  CHECK(copies(kGiB * 1024) == 1000);  // where counting ends
}

TEST_CASE("sizes that no card has are an answer") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("w", int64_t{1} << 61, Kind::kParameter);
  writer.Enter(1, Phase::kForward).Alloc("a", int64_t{1} << 61, Kind::kTemporary);
  for (int step = 2; step <= kVerdictSteps; ++step) writer.Enter(step, Phase::kForward);
  const Loop loop = ReadLoop(writer.trace());
  const PlayableRun run = {&writer.trace(), &loop, BytesOf(writer.trace()), {}, 0, true};
  const Judgement judgement = Judge(run, CardOf(80 * kGiB));
  CHECK(judgement.verdict == Verdict::kOom);
  CHECK(judgement.used_bytes == int64_t{1} << 62);
  CHECK(judgement.processes == 0);
  CHECK(judgement.copies == 0);
}

// PyTorch 2.11.0 on such cards: it runs on the smaller one and dies in step 4 on the larger.
TEST_CASE("a larger card may be too small where a smaller one is not") {
  const Judgement small = JudgeLoop("vgg16.script.onnx", 8, CardOf(2958 * kMiB));
  CHECK(small.verdict == Verdict::kTight);
  CHECK(small.retries > 0);
  const Judgement large = JudgeLoop("vgg16.script.onnx", 8, CardOf(3182 * kMiB));
  CHECK(large.verdict == Verdict::kOom);
  REQUIRE(large.fails_at.has_value());
  CHECK(large.fails_at->step == 4);
}

TEST_CASE("verdicts have names") {
  CHECK(ToString(Verdict::kFits) == "fits");
  CHECK(ToString(Verdict::kTight) == "tight");
  CHECK(ToString(Verdict::kOom) == "oom");
}

}  // namespace onnxfit::verdict_test
