#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/cards.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/seen_calls.h"

namespace onnxfit::batch_loops_test {
namespace {

Graph Model(const std::string& name) {
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
}

void CheckSame(const PlayableRun& run, const PlayableRun& predicted) {
  CHECK(SeenCalls(run) == SeenCalls(predicted));
  CHECK(run.loop->repeats() == predicted.loop->repeats());
  CHECK(run.unmodelled_bytes == predicted.unmodelled_bytes);
  CHECK(run.conf == predicted.conf);
  CHECK(run.is_inference == predicted.is_inference);
}

// How many batches between `first` and `last` are read off, once both ends are known; each is
// what a prediction of its own says.
int64_t CountReadOff(const Graph& graph, EstimateRequest request, int64_t first, int64_t last) {
  const Study study(graph);
  BatchPrograms programs(study, request);
  BatchLoops loops(programs, request);
  loops.At(first);
  loops.At(last);
  std::set<const Trace*> traces;  // one for each batch that was run
  for (int64_t batch = first; batch <= last; ++batch) {
    CAPTURE(batch);
    const PlayableRun run = loops.At(batch);
    traces.insert(run.trace);
    request.binding.batch = batch;
    const LoopedPrediction predicted = PredictLoop(graph, request);
    CheckSame(run, predicted.playable());
  }
  return last - first + 1 - static_cast<int64_t>(traces.size());
}

}  // namespace

TEST_CASE("what is read off is what is predicted, at every batch") {
  struct Row {
    const char* model;
    int64_t first;
    int64_t last;
    int64_t least_read_off;
  };
  const Row rows[] = {
      {"resnet18.train.onnx", 40, 80, 30}, {"mobilenet_v2.script.onnx", 20, 60, 30},
      {"vgg_small.onnxtxt", 1, 100, 90},   {"embedding_mean.onnxtxt", 1, 64, 50},
      {"lenet.onnxtxt", 1, 300, 0},    // scratch of sums comes in steps
      {"gpt2.dynamo.onnx", 1, 16, 0},  // that of sorts is rounded
  };
  for (const Row& row : rows) {
    const std::string model = row.model;
    CAPTURE(model);
    CHECK(CountReadOff(Model(model), {}, row.first, row.last) >= row.least_read_off);
  }
}

// No line leads to them: the convolutions are on one, and each batch is looked up.
TEST_CASE("workspaces of a card are those of the batch, which is read off all the same") {
  for (const char* card : {"v100-16gb", "rtx4090", "h200"}) {
    for (const char* name : {"resnet18.train.onnx", "resnet50.dynamo.onnx"}) {
      const std::string model = name;
      CAPTURE(card);
      CAPTURE(model);
      EstimateRequest request;
      request.settings.device = FindCard(card)->device;
      CHECK(CountReadOff(Model(model), request, 100, 140) >= 30);
    }
  }
}

TEST_CASE("what warnings say is missing is known of runs at other batches, too") {
  const auto text = [](int trips) {
    return fmt::format(R"(
      g (float[N, 4] x) => (float[A, B] y)
      <int64 trips = {{{}}}, bool go = {{1}}, float[4, 4] w = ["location": "none"]> {{
        y = Loop<
          body = step (int64 i, bool c, float v) => (bool c2, float v2) {{
            c2 = Identity(c)
            v2 = MatMul(v, w)
          }}>(trips, go, x)
      }})",
                       trips);
  };
  const auto missing = [&](int trips, int64_t batch) {
    const Graph graph = ParseGraph(text(trips));
    const Study study(graph);
    BatchPrograms programs(study, {});
    BatchLoops loops(programs, {});
    return loops.At(batch).missing;
  };
  CHECK(missing(3, 2) == MissingBytes());
  CHECK(missing(1025, 2).unbounded ==
        std::vector<std::string>{"the body of a loop is counted once (OF117)"});
}

// At the batch that was asked it is what was said.
TEST_CASE("a size that data decide stays while the batch grows, which is said") {
  const Graph graph = ParseGraph(R"(
    g (float[N, 4] x) => (float[A, B] y)
    <int64[1] from = {0}, float[4, 4] w = ["location": "none"]> {
      h = MatMul(x, w)
      rows = NonZero(h)
      turned = Transpose<perm = [1, 0]>(rows)
      picked = GatherND(h, turned)
      y = Unsqueeze(picked, from)
    })");
  const auto missing = [&](std::optional<int64_t> asked, int64_t batch) {
    EstimateRequest request;
    request.binding.batch = asked;
    request.binding.dims["rows"] = 8;
    request.settings.mode = Mode::kEval;
    const Study study(graph);
    BatchPrograms programs(study, request);
    BatchLoops loops(programs, request);
    return loops.At(batch).missing.unbounded;
  };
  const std::vector<std::string> stays = {
      "data decide 'rows', which stays 8 whatever the batch is"};
  CHECK(missing(std::nullopt, 4) == stays);
  CHECK(missing(2, 4) == stays);
  CHECK(missing(2, 2).empty());
}

TEST_CASE("so it is with other settings") {
  const Graph graph = Model("lenet.onnxtxt");
  EstimateRequest request;
  CHECK(CountReadOff(graph, {.settings = {.mode = Mode::kEval}}, 1, 100) >= 90);
  CHECK(CountReadOff(graph, {.settings = {.precision = Precision::kAmpFp16}}, 1, 100) >= 90);
  request.settings.loop.prefetch = 2;  // does not repeat: ten steps are traced
  CHECK(CountReadOff(graph, request, 1, 100) >= 90);
  request.alloc_conf.conf.memory_fraction = 0.5;
  CHECK(CountReadOff(graph, request, 50, 60) >= 0);
}

// As a search goes: up in strides, by halving, then one by one.
TEST_CASE("whatever batches were asked for before, a batch is the same") {
  for (const char* name : {"resnet18.train.onnx", "lenet.onnxtxt"}) {
    const std::string model = name;
    CAPTURE(model);
    const Graph graph = Model(model);
    EstimateRequest request;
    const Study study(graph);
    BatchPrograms programs(study, request);
    BatchLoops loops(programs, request);
    for (const int64_t batch :
         {1, 8, 64, 512, 288, 176, 120, 148, 134, 141, 137, 136, 133, 140, 63, 65, 500, 3, 9}) {
      CAPTURE(batch);
      request.binding.batch = batch;
      const LoopedPrediction predicted = PredictLoop(graph, request);
      CheckSame(loops.At(batch), predicted.playable());
    }
  }
}

}  // namespace onnxfit::batch_loops_test
