// Whole runs under PYTORCH_ALLOC_CONF: what we say, and what PyTorch did.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/values.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/timeline.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::alloc_conf_runs_test {
namespace {

const std::string kRoot = kSourceDir;

const Graph& Model(const std::string& name) {
  static std::map<std::string, Graph> graphs;
  if (!graphs.contains(name)) graphs[name] = LoadGraph(kRoot + "/models/" + name + ".onnx");
  return graphs.at(name);
}

Trace Run(const std::string& model, int64_t batch, const TrainingSettings& settings) {
  return Train(Build(Model(model), settings, {.batch = batch}).program, settings);
}

AllocatorConf Conf(const std::string& text) { return ParseAllocConf({"", text}).conf; }

// The rows of a table, but for its comments.
std::vector<std::string> Rows(const std::string& file) {
  std::ifstream table(kRoot + "/tests/data/" + file);
  std::vector<std::string> rows;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with('#')) rows.push_back(line);
  }
  return rows;
}

std::string Peaks(const Timeline& timeline) {
  std::string text;
  for (const StepFigures& step : timeline.steps) {
    text += fmt::format(" {} {} {}", step.peak.exact_bytes, step.peak.allocated_bytes,
                        step.peak.reserved_bytes);
  }
  return text;
}

std::string Outcome(const CardRun& run) {
  return run.fits ? fmt::format(" {} {}", run.retries, run.peak_reserved_bytes)
                  : fmt::format(" oom {}", run.failed_step);
}

TEST_CASE("peaks are those of PyTorch with the same options") {
  int runs = 0;
  for (const std::string& row : Rows("alloc_conf.txt")) {
    CAPTURE(row);
    std::istringstream words(row);
    std::string model;
    std::string optimizer;
    std::string conf;
    int64_t batch = 0;
    words >> model >> batch >> optimizer >> conf;
    const TrainingSettings settings = {.optimizer = optimizer == "sgd" ? Optimizer::kSgd
                                                                       : Optimizer::kAdamW};
    const Timeline timeline = Replay(Run(model, batch, settings), Conf(conf));
    CHECK(row.ends_with(conf + Peaks(timeline)));
    ++runs;
  }
  CHECK(runs == 44);
}

TEST_CASE("small cards run and die where PyTorch did with the same options") {
  int runs = 0;
  for (const std::string& row : Rows("card_alloc_conf.txt")) {
    CAPTURE(row);
    std::istringstream words(row);
    std::string model;
    std::string conf;
    int64_t batch = 0;
    int64_t card_bytes = 0;
    words >> model >> batch >> card_bytes >> conf;
    const Trace trace = Run(model, batch, {.steps = 8});
    CHECK(row.ends_with(conf + Outcome(RunOnCard(trace, card_bytes, Conf(conf)))));
    ++runs;
  }
  CHECK(runs == 66);
}

TEST_CASE("a memory fraction is one of the whole card") {
  const Trace trace = Run("lenet.dynamo-raw", 1, {});
  const int64_t needed_bytes = Replay(trace).peak.reserved_bytes;
  const AllocatorConf half = Conf("per_process_memory_fraction:0.5");
  CHECK_FALSE(RunOnCard(trace, needed_bytes, half).fits);
  CHECK(RunOnCard(trace, needed_bytes, half, needed_bytes).fits);
}

}  // namespace
}  // namespace onnxfit::alloc_conf_runs_test
