#include "estimator/ranks/data_parallel.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/strides.h"
#include "tests/trace_helpers.h"

namespace onnxfit::data_parallel_test {
namespace {

// Matrices of 1 MiB (a) and of 24 (b, c), a vector of 2 KiB (d).
constexpr char kNet[] = R"(
  net (float[2, 512] x) => (float[2, 512] y)
  < float[512, 512] a = ["location": "none"], float[512, 12288] b = ["location": "none"],
    float[12288, 512] c = ["location": "none"], float[512] d = ["location": "none"] > {
    h = MatMul (x, a)
    i = MatMul (h, b)
    j = MatMul (i, c)
    y = Add (j, d)
  })";

// Each tensor lies somehow.
Program AsDispatched(Program program) {
  for (ProgramValue& value : program.values) {
    value.type.strides = ContiguousStrides(value.type.dims);
  }
  return program;
}

// What it asks for and gives back: "+2048 -2048".
struct Rank {
  Program program = AsDispatched(Build(kNet, {}).program);
  TrainingSettings settings = {};
  Trace trace;
  Machine machine{trace};
  CallTable calls{program, machine, settings};
  ParameterGradients gradients{program.parameters.size()};

  std::string Events() {
    std::string text;
    for (const Event& event : trace.events) {
      const bool made = event.type == Event::Type::kAlloc;
      if (!made && event.type != Event::Type::kFree) continue;
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", made ? '+' : '-',
                          trace.buffers[Index(event.id)].bytes);
    }
    trace.events.clear();
    return text;
  }

  void SetGradient(size_t parameter) {
    const TensorType& type = program.values[Index(program.parameters[parameter])].type;
    gradients.Set(parameter, machine.New(type, machine.AddLabel("gradient")));
  }
};

constexpr int64_t kA = 512 * 512 * 4, kB = 512 * 12288 * 4, kD = 512 * 4;

// By recorded events of torch 2.11.0 over a group of 8.
TEST_CASE("the model is broadcast, and all gradients have one bucket at first") {
  Rank rank;
  DataParallel ddp(rank.calls, rank.gradients);
  ddp.Construct();
  CHECK(rank.Events() == fmt::format("+{0} -{0} +{0}", kA + 2 * kB + kD));
  ddp.BeforeForward();
  CHECK(rank.Events().empty());
}

// flatten_dense_tensors makes each contiguous before it joins them.
TEST_CASE("a weight with channels last is copied before the model is broadcast") {
  Rank rank;
  rank.program.values[Index(rank.program.parameters[0])].type.strides = {1, 512};
  DataParallel ddp(rank.calls, rank.gradients);
  ddp.Construct();
  CHECK(rank.Events() == fmt::format("+{0} +{1} -{0} -{1} +{1}", kA, kA + 2 * kB + kD));
}

TEST_CASE("the second forward makes buckets of gradients as they came") {
  Rank rank;
  DataParallel ddp(rank.calls, rank.gradients);
  ddp.Construct();
  ddp.BeforeForward();
  for (const size_t parameter : std::vector<size_t>{3, 0, 2, 1}) ddp.TakeGradient(parameter);
  rank.Events();
  ddp.BeforeForward();
  // Five numbers and the sizes of two; a first bucket from 1 MiB on, then from 25 MiB on.
  CHECK(rank.Events() ==
        fmt::format("+20 +8 -8 -20 -{} +{} +{}", kA + 2 * kB + kD, kD + kA, 2 * kB));
  ddp.BeforeForward();
  CHECK(rank.Events().empty());
}

TEST_CASE("what is not reduced tells no order, and the next forward sends no buffers") {
  Rank rank;
  DataParallel ddp(rank.calls, rank.gradients);
  ddp.Construct();
  const auto step = [&](bool reduces) {
    rank.Events();
    ddp.BeforeForward(reduces);
    for (const size_t parameter : std::vector<size_t>{3, 2, 1, 0}) ddp.TakeGradient(parameter);
    ddp.EndBackward();
    return rank.Events();
  };
  CHECK(step(false).empty());
  CHECK(step(true).empty());
  CHECK(step(false).starts_with("+20 +8 "));
}

TEST_CASE("of a static graph the second backward tells the order") {
  Rank rank;
  rank.settings.ranks = {.gradients_as_views = true, .static_graph = true};
  DataParallel ddp(rank.calls, rank.gradients);
  ddp.Construct();
  // Which parameters are used.
  CHECK(rank.Events().ends_with("+16"));
  ddp.BeforeForward();
  rank.SetGradient(3);
  ddp.TakeGradient(3);
  CHECK(rank.Events() == "+2048");  // as it is, until all are there
  ddp.EndBackward();
  CHECK(rank.Events() == "-2048");
  ddp.BeforeForward();
  CHECK(rank.Events().empty());
  for (const size_t parameter : std::vector<size_t>{3, 0, 2, 1}) ddp.TakeGradient(parameter);
  ddp.EndBackward();
  ddp.BeforeForward();
  CHECK(rank.Events().starts_with("+20 +8 "));
}

// It is cloned in the first step alone; both have 4096 bytes.
TEST_CASE("of a static graph the first output passes through a node of its own") {
  const auto clones = [](bool is_static) {
    TrainingSettings settings = {.loss = Loss::kMse, .steps = 2};
    settings.ranks = {.strategy = Strategy::kDdp, .world = 2, .static_graph = is_static};
    const Trace trace = Train(Build(kNet, settings).program, settings);
    return std::ranges::count_if(trace.events, [&](const Event& event) {
      return event.type == Event::Type::kAlloc && trace.buffers[Index(event.id)].bytes == 4096 &&
             LabelText(trace, trace.buffers[Index(event.id)].label) == "DDP bucket";
    });
  };
  CHECK(clones(true) == 1);
  CHECK(clones(false) == 0);
}

TEST_CASE("a gradient that is a part of its bucket has no memory of its own") {
  for (const bool as_views : {false, true}) {
    Rank rank;
    rank.settings.ranks.gradients_as_views = as_views;
    DataParallel ddp(rank.calls, rank.gradients);
    ddp.Construct();
    ddp.BeforeForward();
    rank.Events();
    rank.SetGradient(3);
    ddp.TakeGradient(3);
    CHECK(rank.Events() == (as_views ? "+2048 -2048" : "+2048"));
    CHECK(rank.gradients.Has(3));
    rank.gradients.Clear(rank.machine);
    CHECK(rank.Events() == (as_views ? "" : "-2048"));
  }
}

// a, b, c, d have 2^18, 6291456, 6291456 and 512 elements.
TEST_CASE("the first rank of ZeroRedundancyOptimizer gets the largest first") {
  const Rank rank;
  using Share = std::vector<size_t>;
  CHECK(FirstShare(rank.program, 1) == Share{1, 2, 0, 3});
  CHECK(FirstShare(rank.program, 2) == Share{1, 0});
  CHECK(FirstShare(rank.program, 8) == Share{1});
}

// Of 36, 30, 30 and 30 elements the first of three ranks has 36, and the second 60.
TEST_CASE("another rank may have more than the first") {
  const Program program = Build(R"(
    net (float[2, 6] x) => (float[2, 5] y)
    < float[6, 6] a = ["location": "none"], float[6, 5] b = ["location": "none"],
      float[5, 6] c = ["location": "none"], float[6, 5] d = ["location": "none"] > {
      h = MatMul (x, a)
      i = MatMul (h, b)
      j = MatMul (i, c)
      y = MatMul (j, d)
    })",
                                {})
                              .program;
  CHECK(FirstShare(program, 3) == std::vector<size_t>{0});
  CHECK(MoreThanFirstShare(program, 3) == 60 - 36);
  CHECK(MoreThanFirstShare(program, 4) == 0);
  CHECK(MoreThanFirstShare(program, 1) == 0);
}

// The first micro-batch's have memory of their own until the second is added, which is copied.
TEST_CASE("a gradient that was not reduced becomes a part of its bucket when more is added") {
  const auto gradients_held = [](bool no_sync) {
    TrainingSettings settings = {.loss = Loss::kMse, .steps = 2};
    settings.loop.accumulate = 2;
    settings.ranks = {.strategy = Strategy::kDdp, .gradients_as_views = true, .no_sync = no_sync};
    const Trace trace = Train(Build(kNet, settings).program, settings);
    int64_t bytes = 0;
    for (const Event& event : trace.events) {
      if (event.type == Event::Type::kPhase && event.phase == Phase::kOptimizer) break;
      if (event.type != Event::Type::kAlloc && event.type != Event::Type::kFree) continue;
      const Buffer& buffer = trace.buffers[Index(event.id)];
      if (!LabelText(trace, buffer.label).ends_with(".grad")) continue;
      bytes += event.type == Event::Type::kAlloc ? buffer.bytes : -buffer.bytes;
    }
    return bytes;
  };
  CHECK(gradients_held(false) == 0);
  CHECK(gradients_held(true) == 0);
}

TEST_CASE("Lightning reduces the gradients of the last micro-batch alone") {
  const auto trace = [](Strategy strategy, bool no_sync) {
    TrainingSettings settings = {.loss = Loss::kMse, .steps = 2};
    settings.loop = {.library = LoopLibrary::kLightning, .accumulate = 2};
    settings.ranks = {.strategy = strategy, .no_sync = no_sync};
    return ToString(Train(Build(kNet, settings).program, settings));
  };
  CHECK(trace(Strategy::kDdp, false) == trace(Strategy::kDdp, true));
  CHECK(trace(Strategy::kFsdp, false) != trace(Strategy::kFsdp, true));
}

TEST_CASE("an optimizer in backward is none that waits for the ranks") {
  TrainingSettings settings = {.optimizer_in_backward = true};
  settings.ranks.strategy = Strategy::kDdp;
  CHECK_THROWS_WITH_AS(Train(Build(kNet, settings).program, settings),
                       "--strategy: expected no --optimizer-in-backward, which steps before ranks "
                       "have added up their gradients",
                       Error);
}

TEST_CASE("a rank of zero-redundancy has states of its share") {
  const auto has_state = [](const char* name) {
    TrainingSettings settings = {.loss = Loss::kMse, .steps = 1};
    settings.ranks = {.strategy = Strategy::kZeroRedundancy, .world = 2};
    return TraceText(kNet, settings).find(std::string("+") + name + ".exp_avg:") !=
           std::string::npos;
  };
  CHECK(has_state("b"));
  CHECK(has_state("a"));
  CHECK_FALSE(has_state("c"));
}

}  // namespace
}  // namespace onnxfit::data_parallel_test
