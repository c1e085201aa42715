// Who holds which storage, and until when.
#include "estimator/eager/holders.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "estimator/base/index.h"
#include "estimator/memory/lives.h"
#include "estimator/operators/dispatch.h"
#include "estimator/training/training.h"
#include "tests/files.h"
#include "tests/trace_helpers.h"

namespace onnxfit::holders_test {
namespace {

// What happens at an event: "-h", "+y" or the phase that begins.
std::string EventText(const Trace& trace, int64_t place) {
  if (place == Holder::kForGood) return "the end";
  const Event& event = trace.events[Index(place)];
  if (event.type == Event::Type::kPhase) return std::string(ToString(event.phase));
  if (event.type == Event::Type::kAt) return "at " + trace.labels[Index(event.id)];
  const std::string& label = trace.labels[Index(trace.buffers[Index(event.id)].label)];
  if (event.type == Event::Type::kKind) return label + " changes";
  return (event.type == Event::Type::kFree ? "-" : "+") + label;
}

std::string SlotText(Slots slot) {
  for (int i = 0; i < kMaxInputSlots; ++i) {
    if (slot == In(i)) return fmt::format("input {}", i);
  }
  return slot == Out(0) ? "output 0" : "aux 0";
}

std::string HolderText(const Program& program, const Holder& holder) {
  switch (holder.type) {
    case Holder::Type::kName:
      return "name " + program.values[Index(holder.id)].name + (holder.is_view ? ", a view" : "");
    case Holder::Type::kSaved:
      return fmt::format("{} as {}", program.calls[Index(holder.id)].op, SlotText(holder.slot));
    case Holder::Type::kGradient:
      return program.values[Index(holder.id)].name + ".grad";
    case Holder::Type::kCache:
      return "cache of " + program.values[Index(holder.id)].name;
  }
  return "";
}

// One line a holder: the storage, who holds it, and the first event after it has let go.
std::string HoldersText(std::string_view text, TrainingSettings settings) {
  settings.steps = 1;
  const Program program = Dispatch(Build(text, settings).program, settings);
  Holders holders;
  const Trace trace = RunTraining(program, settings, &holders);
  std::string lines = "\n";
  for (const Holder& holder : holders) {
    const std::string& label = trace.labels[Index(trace.buffers[Index(holder.buffer)].label)];
    lines += fmt::format("{}: {} until {}\n", label, HolderText(program, holder),
                         EventText(trace, holder.until));
  }
  return lines;
}

// Nobody holds what is not born yet, or dead.
void CheckHoldersLive(const Program& program, const TrainingSettings& settings) {
  Holders holders;
  const Trace trace = RunTraining(program, settings, &holders);
  const Lives lives = ReadLives(trace);
  REQUIRE(!holders.empty());
  for (const Holder& holder : holders) {
    const Life& life = lives.of_buffer[Index(holder.buffer)];
    CAPTURE(trace.labels[Index(trace.buffers[Index(holder.buffer)].label)]);
    CHECK(life.born < holder.from);
    if (life.dies == kNever) continue;
    CHECK(holder.until != Holder::kForGood);
    CHECK(holder.until <= life.dies);
  }
}

}  // namespace

TEST_CASE("names hold until their scope ends, calls until their backward") {
  CHECK(HoldersText(kTwoLayers, {.optimizer = Optimizer::kSgd, .in_place = InPlaceUse::kAlways}) ==
        R"(
w1: name w1 until the end
w2: name w2 until the end
x: name x until at Relu #1
labels: name labels until backward
x: mm as input 0 until w1.grad changes
h: name h until at MatMul #2
h: relu as output 0 until -h
h: name a until at loss
h: mm as input 0 until w2.grad changes
w2: mm as input 1 until w2.grad changes
y: name y until -y
log_probabilities: _log_softmax as output 0 until -log_probabilities
log_probabilities: name log_probabilities until backward
log_probabilities: nll_loss as input 0 until -loss.total_weight
labels: nll_loss as input 1 until -loss.total_weight
loss.total_weight: nll_loss as aux 0 until -loss.total_weight
loss: name loss until backward
w2.grad: w2.grad until the end
w1.grad: w1.grad until the end
)");
}

TEST_CASE("under autocast its cache holds the casts of parameters") {
  CHECK(HoldersText(kTwoLayers, {.precision = Precision::kAmpBf16,
                                 .optimizer = Optimizer::kSgd,
                                 .in_place = InPlaceUse::kAlways}) ==
        R"(
w1: name w1 until the end
w2: name w2 until the end
x: name x until at Relu #1
labels: name labels until -w1.cast
w1.cast: cache of w1.cast until -w1.cast
x.cast: name x.cast until at Relu #1
x.cast: mm as input 0 until -x.cast
h: name h until at MatMul #2
h: relu as output 0 until -h
h: name a until at loss
w2.cast: cache of w2.cast until backward
h: mm as input 0 until -w2.cast
w2.cast: mm as input 1 until -w2.cast
y: name y until -y
log_probabilities: _log_softmax as output 0 until -log_probabilities
log_probabilities: name log_probabilities until -w1.cast
log_probabilities.cast: name log_probabilities.cast until -y
log_probabilities.cast: nll_loss as input 0 until -log_probabilities.cast
labels: nll_loss as input 1 until -log_probabilities.cast
loss.total_weight: nll_loss as aux 0 until -log_probabilities.cast
loss: name loss until -w1.cast
w2.grad: w2.grad until the end
w1.grad: w1.grad until the end
)");
}

TEST_CASE("a run that is recorded is the run") {
  const TrainingSettings settings = {.precision = Precision::kAmpFp16};
  const Program program = Dispatch(Build(kTwoLayers, settings).program, settings);
  Holders holders;
  CHECK(ToString(RunTraining(program, settings, &holders)) ==
        ToString(RunTraining(program, settings)));
  for (const Holder& holder : holders) CHECK(holder.from != holder.until);
}

TEST_CASE("what has no backward lets go with its results") {
  const std::string lines = HoldersText(R"(
    net (float[16, 4] x) => (float[16, 2] y, float[16, 2] other)
    < float[4, 2] w = ["location": "none"] > {
      y = MatMul (x, w)
      h = Sigmoid (y)
      other = Exp (h)
    })",
                                        {.optimizer = Optimizer::kSgd});
  CHECK(lines.find("\nh: sigmoid as output 0 until -h\n") != std::string::npos);
  CHECK(lines.find("\nother: exp as output 0 until -other\n") != std::string::npos);
}

TEST_CASE("what somebody holds is alive") {
  std::vector<TrainingSettings> runs(4, {.precision = Precision::kAmpBf16});
  runs[1].loop = {.hold_outputs = true, .prefetch = 1, .accumulate = 2};
  runs[2].loop = {.zero_grad = ZeroGrad::kKeep};
  runs[3].mode = Mode::kEval;
  for (const auto& path : TextModels()) {
    for (size_t i = 0; i < runs.size(); ++i) {
      CAPTURE(path.filename().string());
      CAPTURE(i);
      CheckHoldersLive(Dispatch(Build(LoadGraph(path.string()), runs[i]).program, runs[i]),
                       runs[i]);
    }
  }
}

}  // namespace onnxfit::holders_test
