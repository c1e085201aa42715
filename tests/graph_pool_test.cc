// CUDA graphs: a pool of their own for what is recorded.
#include "estimator/training/graph_pool.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::graph_pool_test {
namespace {

TrainingSettings With(bool graphs) {
  TrainingSettings settings;
  settings.loss = Loss::kMse;
  settings.compile = Compiling::kAsEager;
  settings.cuda_graphs = graphs;
  return settings;
}

Trace Trained(bool graphs) {
  const TrainingSettings settings = With(graphs);
  return Train(Build(kTwoLayers, settings).program, settings);
}

// By name: how many buffers there are in the graphs' pool.
std::map<std::string, int> InPool(const Trace& trace) {
  std::map<std::string, int> count;
  for (const Buffer& buffer : trace.buffers) {
    if (buffer.stream != kMainStream) ++count[trace.labels[Index(buffer.label)]];
  }
  return count;
}

TEST_CASE("the model's calls have a pool, the loss, the batch and the optimizer do not") {
  const std::map<std::string, int> in_pool = InPool(Trained(true));
  const int steps = TrainingSettings().steps;
  CHECK(in_pool.at("h") == steps);
  CHECK(in_pool.at("y") == steps);
  CHECK(in_pool.at("w1.grad") == steps);
  for (const char* const outside : {"x", "labels", "loss", "y.grad", "w1", "w1.exp_avg"})
    CHECK_MESSAGE(!in_pool.contains(outside), outside);
  CHECK(InPool(Trained(false)).empty());
}

TEST_CASE("cuBLAS's workspace goes behind each graph and comes with the next") {
  const auto takes = [](bool graphs) {
    const Trace trace = Trained(graphs);
    int count = 0;
    for (const Event& event : trace.events) {
      const bool is_taken = event.type == Event::Type::kAlloc && event.kind == Kind::kWorkspace;
      count += is_taken ? 1 : 0;
    }
    return count;
  };
  const int steps = TrainingSettings().steps;
  CHECK(takes(false) == 2);  // forward's and backward's, which stay
  CHECK(takes(true) == 2 * steps);
}

// x [16, 4] while it runs forward; the gradient of y [16, 2] while it runs backward.
TEST_CASE("the second step has copies of what graphs are given") {
  const auto added = [](Phase wanted) {
    int64_t bytes = 0;
    const Trace plain = Trained(false);
    const Trace trace = Trained(true);
    Phase phase = Phase::kSetup;
    int32_t step = 0;
    for (const Event& event : trace.events) {
      if (event.type == Event::Type::kPhase) {
        phase = event.phase;
        step = event.id;
      }
      const bool is_new = Index(event.id) >= plain.buffers.size();
      if (event.type != Event::Type::kAlloc || !is_new || event.kind == Kind::kWorkspace) continue;
      CHECK(step == 2);
      if (phase == wanted) bytes += trace.buffers[Index(event.id)].bytes;
    }
    return bytes;
  };
  CHECK(added(Phase::kForward) == 16 * 4 * 4);
  CHECK(added(Phase::kBackward) == 16 * 2 * 4);
}

}  // namespace
}  // namespace onnxfit::graph_pool_test
