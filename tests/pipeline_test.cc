#include "estimator/training/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::pipeline_test {
namespace {

constexpr int64_t kValue = int64_t{4} * 256 * 64;  // what a layer makes of a micro-batch
constexpr int64_t kMicroBatches = 4;

TrainingSettings StageSettings(int64_t stage, Schedule schedule) {
  TrainingSettings settings = {.optimizer = Optimizer::kSgd, .steps = 2};
  settings.loop.accumulate = kMicroBatches;
  settings.ranks = {.strategy = Strategy::kPipeline, .world = 2};
  settings.ranks.pipeline = {.schedule = schedule, .stage = stage};
  return settings;
}

Trace TraceOf(const TrainingSettings& settings) {
  return Train(Build(kTwoBlocks, settings).program, settings);
}

// How many values of a layer's size are alive when the second step's backward begins.
int64_t ValuesBeforeBackward(const TrainingSettings& settings) {
  const Trace trace = TraceOf(settings);
  std::map<int32_t, int64_t> alive;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kAlloc) alive[event.id] = trace.buffers[Index(event.id)].bytes;
    if (event.type == Event::Type::kFree) alive.erase(event.id);
    const bool begins = event.type == Event::Type::kPhase && event.phase == Phase::kBackward;
    if (begins && event.id == 2) break;
  }
  int64_t values = 0;
  for (const auto& [buffer, bytes] : alive) values += bytes == kValue ? 1 : 0;
  return values;
}

// Of a pass: what the sigmoid saves for itself and the next layer, and what is sent.  Beside them
// a gradient's buffer for each micro-batch.
TEST_CASE("the first stage of two has two passes under way, or all") {
  CHECK(ValuesBeforeBackward(StageSettings(0, Schedule::k1F1B)) == 2 * 2 + kMicroBatches);
  CHECK(ValuesBeforeBackward(StageSettings(0, Schedule::kGPipe)) ==
        kMicroBatches * 2 + kMicroBatches);
}

// Of a pass: what the sigmoid and what the head saves; what is received is in buffers.
TEST_CASE("the last stage goes backward at once") {
  CHECK(ValuesBeforeBackward(StageSettings(1, Schedule::k1F1B)) == 2 + kMicroBatches);
  CHECK(ValuesBeforeBackward(StageSettings(1, Schedule::kGPipe)) ==
        kMicroBatches * 2 + kMicroBatches);
}

// The most of one size that is alive at once, of floats.
int64_t MostOf(int64_t bytes, const TrainingSettings& settings) {
  const Trace trace = TraceOf(settings);
  int64_t alive = 0;
  int64_t most = 0;
  for (const Event& event : trace.events) {
    const bool is_alloc = event.type == Event::Type::kAlloc;
    if (!is_alloc && event.type != Event::Type::kFree) continue;
    const Buffer& buffer = trace.buffers[Index(event.id)];
    if (buffer.bytes != bytes || buffer.dtype != DType::kFloat32) continue;
    alive += is_alloc ? 1 : -1;
    most = std::max(most, alive);
  }
  return most;
}

TEST_CASE("the last stage puts outputs together unless it is told to drop them") {
  const int64_t all = kMicroBatches * 4 * 256 * 2;
  TrainingSettings settings = StageSettings(1, Schedule::k1F1B);
  CHECK(MostOf(all, settings) == 2);  // the last step's, and this one's
  settings.ranks.pipeline.drops_outputs = true;
  CHECK(MostOf(all, settings) == 0);
  CHECK(MostOf(all, StageSettings(0, Schedule::k1F1B)) == 0);
}

TEST_CASE("a pipeline of one stage trains all parameters") {
  TrainingSettings settings = StageSettings(0, Schedule::k1F1B);
  settings.ranks.world = 1;
  CHECK(ValuesBeforeBackward(settings) == 4);
  // Weights and gradients of two blocks, and one that is added to its own.
  CHECK(MostOf(int64_t{4} * 64 * 64, settings) == 9);
}

TEST_CASE("what is frozen or computed anew has what the stage before sends") {
  TrainingSettings settings = StageSettings(1, Schedule::k1F1B);
  settings.freeze = {"h.1.fc.weight"};
  CHECK(ValuesBeforeBackward(settings) == 2 + kMicroBatches);
  settings.freeze = {};
  settings.checkpoint = {"h.1"};
  settings.checkpoint_reentrant = true;
  CHECK(ValuesBeforeBackward(settings) == 1 + kMicroBatches);
}

// "h.0" is in the first stage alone.
TEST_CASE("checkpoints are named in the whole model") {
  TrainingSettings settings = StageSettings(1, Schedule::k1F1B);
  const int64_t without = ValuesBeforeBackward(settings);
  settings.checkpoint = {"h.0"};
  CHECK(ValuesBeforeBackward(settings) == without);
}

TEST_CASE("checkpoints of all passes under way are there for their backward") {
  TrainingSettings settings = StageSettings(0, Schedule::kGPipe);
  settings.checkpoint = {"h.0"};
  // What is sent, whose gradient is received; the block has nothing but its input, a part of x.
  CHECK(ValuesBeforeBackward(settings) == 2 * kMicroBatches);
  CHECK(MostOf(int64_t{4} * 64 * 64, settings) == 5);  // all passes have their gradients
}

std::string ErrorOf(const TrainingSettings& settings) {
  try {
    CheckPipeline(settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what is not known of stages is refused") {
  TrainingSettings settings = StageSettings(0, Schedule::k1F1B);
  CHECK(ErrorOf(settings) == "");
  settings.loop.accumulate = 1;
  CHECK(ErrorOf(settings).starts_with(
      "--accumulate: expected at least 2 micro-batches, as many as stages, which Schedule1F1B asks "
      "for, found 1"));
  settings = StageSettings(0, Schedule::kGPipe);
  settings.loop.accumulate = 1;
  CHECK(ErrorOf(settings) == "");
  settings.precision = Precision::kAmpFp16;
  CHECK(ErrorOf(settings).starts_with("--strategy: pipeline: expected no -p amp-fp16"));
}

TEST_CASE("without a stage the one that reserves most is taken, and said") {
  TrainingSettings settings = StageSettings(0, Schedule::kGPipe);
  settings.ranks.pipeline.stage.reset();
  const Prediction prediction = Predict(ParseGraph(kTwoBlocks), {.settings = settings});
  const std::string& said = prediction.program.assumptions.back();
  CAPTURE(said);
  // Both reserve what the allocator takes at least.
  CHECK(
      said.starts_with("the figures are those of stage 0 (of 0 to 1), the model's input to h.0, "
                       "which reserves most (--stage); they reserve 22.0 MiB, 22.0 MiB"));
}

// A loss that is recorded with the model comes out alone.
TEST_CASE("what the last stage keeps is said not to be known where the loss alone comes out") {
  TrainingSettings settings = StageSettings(1, Schedule::kGPipe);
  settings.loss = Loss::kNone;
  const auto says = [&] {
    const Prediction prediction = Predict(ParseGraph(kTwoBlocks), {.settings = settings});
    return prediction.program.assumptions.back().starts_with("what the model returns is not known");
  };
  CHECK(says());
  settings.ranks.pipeline.drops_outputs = true;
  CHECK(!says());
  settings.ranks.pipeline.drops_outputs = false;
  settings.loss = Loss::kMse;
  CHECK(!says());
}

}  // namespace
}  // namespace onnxfit::pipeline_test
