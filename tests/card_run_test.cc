#include "estimator/memory/card_run.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit {
namespace {

constexpr int64_t kCardBytes = 8589934592;

std::string Outcome(const CardRun& run) {
  return run.fits ? std::to_string(run.retries) : "oom " + std::to_string(run.failed_step);
}

// Ten steps of PyTorch on a card of 8 GiB, at batches around the largest that trained.
TEST_CASE("a card of 8 GiB runs and dies where PyTorch did, with as many retries") {
  const std::string root = ONNXFIT_SOURCE_DIR;
  const TrainingSettings settings = {.steps = 10};
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
    const Built built = Build(graphs.at(model), settings, {.batch = batch});
    CHECK(Outcome(RunOnCard(Train(built.program, settings), kCardBytes)) == expected);
    ++runs;
  }
  CHECK(runs == 110);
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
  CHECK(run.failed_phase == Phase::kSetup);
  CHECK(run.asked_bytes == 1024 * 1024 * 4);
  const CardRun later = RunOnCard(trace, 24 << 20);
  CHECK_FALSE(later.fits);
  CHECK(later.failed_step == 1);
  CHECK(trace.labels[static_cast<size_t>(later.failed_at)] == "fc");
  CHECK(RunOnCard(trace, 64 << 20).fits);
}

}  // namespace
}  // namespace onnxfit
