#include "estimator/snapshot/leftovers.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/fit/predict.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/loader.h"
#include "estimator/picture/run_files.h"
#include "tests/snapshot_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::leftovers_test {
namespace {

// A prediction of this trace, and of no model.
Prediction PredictionOf(Trace trace) {
  Prediction prediction;
  prediction.trace = std::move(trace);
  return prediction;
}

struct TraceBuilder {
  Trace trace;

  TraceBuilder& Phase(int32_t step, onnxfit::Phase phase) {
    trace.events.push_back({.type = Event::Type::kPhase, .phase = phase, .id = step});
    return *this;
  }
  TraceBuilder& Alloc(const std::string& name, int64_t bytes, Kind kind) {
    const auto id = static_cast<BufferId>(trace.buffers.size());
    trace.buffers.push_back({.bytes = bytes, .label = static_cast<int32_t>(trace.labels.size())});
    trace.labels.push_back(name);
    trace.events.push_back({.type = Event::Type::kAlloc, .kind = kind, .id = id});
    return *this;
  }
  TraceBuilder& Free(BufferId buffer) {
    trace.events.push_back({.type = Event::Type::kFree, .id = buffer});
    return *this;
  }
};

// A weight of 4096, a step that makes two tensors of 2048 and frees one, a gradient.
Prediction SmallRun() {
  return PredictionOf(TraceBuilder()
                          .Phase(0, Phase::kSetup)
                          .Alloc("w", 4096, Kind::kParameter)
                          .Phase(1, Phase::kForward)
                          .Alloc("h", 2048, Kind::kActivation)
                          .Alloc("y", 2048, Kind::kActivation)
                          .Free(1)
                          .Phase(1, Phase::kBackward)
                          .Alloc("dw", 4096, Kind::kGradient)
                          .trace);
}

Leftovers LeftoversOf(const std::string& text, const Prediction& prediction) {
  return FindLeftovers(TellStory(ParseSnapshotText(text)), prediction);
}

std::string KeptText(const Leftovers& left) {
  std::string text;
  for (const LineGroup& group : left.kept) {
    text += (text.empty() ? "" : ", ") + std::to_string(group.count) + " x " +
            std::to_string(group.bytes / group.count);
  }
  return text;
}

std::string MissingText(const Leftovers& left) {
  std::string text;
  for (const MissingGroup& group : left.missing) {
    text += (text.empty() ? "" : ", ") + group.name + ":" + std::to_string(group.total_bytes());
  }
  return text;
}

}  // namespace

TEST_CASE("a run that keeps what is predicted") {
  const Leftovers left = LeftoversOf("+w 4096\n+h 2048\n+y 2048\n", SmallRun());
  CHECK(left.kept.empty());
  CHECK(left.missing.empty());
  CHECK(left.run_bytes == 8192);
  CHECK(left.predicted_bytes == 8192);
  CHECK(left.predicted_peak_bytes == 4096 + 2048 + 4096);
  CHECK(left.moment.step == 1);
  CHECK(left.moment.phase == Phase::kForward);
}

TEST_CASE("what one of the two has alone") {
  const Leftovers left =
      LeftoversOf("+w 4096\n+y 2048\n+dw 4096\n+more 700\n+m2 700\n", SmallRun());
  CHECK(left.moment.phase == Phase::kBackward);
  CHECK(KeptText(left) == "2 x 700");
  CHECK(left.kept_bytes == 1400);
  CHECK(left.missing.empty());
  const Leftovers less = LeftoversOf("+dw 4096\n+w 4096\n", SmallRun());
  CHECK(less.kept.empty());
  CHECK(MissingText(less) == "y:2048");
  CHECK(less.missing[0].kind == Kind::kActivation);
  CHECK(less.missing_bytes == 2048);
}

TEST_CASE("sizes are the same that PyTorch rounds alike") {
  CHECK(LeftoversOf("+w 4000\n+h 2000\n+y 1600\n", SmallRun()).kept.empty());
  CHECK(KeptText(LeftoversOf("+w 4096\n+h 2048\n+y 1500\n", SmallRun())) == "1 x 1500");
}

TEST_CASE("nothing is like a run that has nothing") {
  const Leftovers left = LeftoversOf("", SmallRun());
  CHECK(left.kept.empty());
  CHECK(left.missing.empty());
  CHECK(left.predicted_bytes == 0);
}

// The step is at its beginning; all that turns 1 to 3 left is as large as what it will make.
TEST_CASE("what grows neither names the moment, nor is taken for what is predicted") {
  const Leftovers left = LeftoversOf("+w 4096 train.py:2:main\n" + Repeated(4, R"(
+x# 9000 train.py:5:main
-x#
+y# 600 train.py:5:main
+leak# 2048 train.py:6:main
-y#
)") + "oom 9 train.py:5:main\n",
                                     SmallRun());
  CHECK(left.kept_bytes == 3 * 2048);
  CHECK(left.predicted_bytes == 4096 + 2048);
  CHECK(left.missing.empty());
  REQUIRE(left.kept.size() == 1);
  CHECK(left.kept[0].growing_bytes == 3 * 2048);
  CHECK(left.kept[0].growing_turns == 3);
}

// Who asked for what the run kept alone: "net.py:1", "net.py:1 + net.py:2"; "none" without lines.
std::string KeptBy(const std::string& text, const Prediction& prediction) {
  const RunStory story = TellStory(ParseSnapshotText(text));
  std::string askers;
  for (const LineGroup& group : FindLeftovers(story, prediction).kept) {
    const SnapshotStack& stack = story.snapshot.stacks[static_cast<size_t>(group.stack)];
    std::string asker = "none";
    if (!stack.frames.empty()) {
      const SnapshotFrame& frame = story.snapshot.frames[static_cast<size_t>(stack.frames[0])];
      asker = frame.file + ":" + std::to_string(frame.line);
    }
    askers += (askers.empty() ? "" : " + ") + asker;
  }
  return askers;
}

// A weight and its state, of one size.
Prediction StatefulRun() {
  return PredictionOf(TraceBuilder()
                          .Phase(0, Phase::kSetup)
                          .Alloc("w", 4096, Kind::kParameter)
                          .Phase(1, Phase::kOptimizer)
                          .Alloc("w.exp_avg", 4096, Kind::kOptimizerState)
                          .trace);
}

TEST_CASE("of equal sizes, those of the phase that is predicted are matched first") {
  // The weight, its gradient, and a third of their size.
  const std::string before = "+w 4096\nhistory\n+y 2048 net.py:2:forward\n";
  CHECK(KeptBy(before + "+k 4096 net.py:1:forward\n+dw 4096 engine\n", SmallRun()) == "net.py:1");
  CHECK(KeptBy("+w 4096\nhistory\n+s 4096 torch/optim/adam.py:1:step\n+k 4096 net.py:1:forward\n",
               StatefulRun()) == "net.py:1");
  // Of one phase: the optimizer's states are made once, before what else its steps make.
  CHECK(KeptBy("+w 4096\nhistory\n+s 4096 torch/optim/adam.py:1:step\n"
               "+k 4096 torch/optim/adam.py:2:step\n",
               StatefulRun()) == "torch/optim/adam.py:2");
}

TEST_CASE("what grows is matched last, however old") {
  const std::string turn = R"(
+x# 9000 train.py:5:main
-x#
+leak# 4096 torch/optim/adam.py:1:step train.py:6:main
)";
  const std::string first =
      "+x 9000 train.py:5:main\n-x\n"
      "+leak 4096 torch/optim/adam.py:1:step train.py:6:main\n";
  const std::string state = "+s 4096 torch/optim/adam.py:2:step train.py:7:main\n";
  const Leftovers left = LeftoversOf(
      "+w 4096 train.py:2:main\n" + first + state + Repeated(3, turn) + "oom 9 train.py:5:main\n",
      StatefulRun());
  REQUIRE(!left.kept.empty());
  CHECK(left.kept[0].count == 4);
}

// A sum in line 3 of net.py, which line 9 calls; it is what is predicted to live.
Prediction RunWithLines() {
  Prediction prediction = PredictionOf(
      TraceBuilder().Phase(1, Phase::kForward).Alloc("add", 4096, Kind::kActivation).trace);
  const Event at = {.type = Event::Type::kAt, .id = 0};
  prediction.trace.events.insert(prediction.trace.events.begin() + 1, at);
  SourceLines& source = prediction.program.source;
  prediction.program.calls.push_back(
      {.op = "add", .where = "add", .frames = {source.Read(9, "f(x)"), source.Read(3, "x + y")}});
  return prediction;
}

TEST_CASE("of equal sizes, those of the lines that a model's file names are matched first") {
  const Prediction run = RunWithLines();
  CHECK(KeptBy("+a 4096 net.py:3:f net.py:9:g\n+b 4096 net.py:4:f net.py:9:g\n", run) ==
        "net.py:4");
  // Another call of the statement, by its innermost line.
  CHECK(KeptBy("+a 4096 net.py:3:f net.py:9:g\n"
               "+b 4096 torch/nn/modules/linear.py:134:forward net.py:3:f net.py:9:g\n",
               run) == "torch/nn/modules/linear.py:134");
  // Functions of torch.nn, which files do not name, say nothing of that.
  CHECK(KeptBy("+a 4096 torch/nn/functional.py:7:f net.py:3:f net.py:9:g\n"
               "+b 4096 torch/nn/modules/linear.py:134:forward net.py:3:f net.py:9:g\n",
               run) == "torch/nn/modules/linear.py:134");
  // Lines that a file does not name may be inside.
  CHECK(KeptBy("+a 4096 other.py:7:f net.py:3:f net.py:9:g\n+b 4096 net.py:4:f net.py:9:g\n",
               run) == "net.py:4");
  // In their order.
  CHECK(KeptBy("+a 4096 other.py:7:f net.py:3:f net.py:9:g\n+b 4096 net.py:9:g net.py:3:f\n",
               run) == "net.py:9");
}

// What onnxfit writes as PyTorch's snapshot is the run that it predicts.
TEST_CASE("our own snapshots read back, to the byte") {
  for (const Mode mode : {Mode::kTrain, Mode::kEval}) {
    const Graph model = ParseGraph(kTwoLayers);
    const Prediction prediction = Predict(model, {.settings = {.mode = mode}});
    const std::string bytes = ToMemorySnapshot(prediction);
    const RunStory story = TellStory(ReadMemorySnapshot(bytes));
    const Leftovers left = FindLeftovers(story, prediction);
    CHECK(story.run.peak.requested_bytes == left.predicted_peak_bytes);
    CHECK(story.run.peak.requested_bytes == Replay(prediction.trace).peak.exact_bytes);
    CHECK(story.run.contradictions == 0);
    CHECK(left.kept.empty());
    CHECK(left.missing.empty());
  }
}

}  // namespace onnxfit::leftovers_test
