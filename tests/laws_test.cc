// The laws of estimator/README.md on every model of the repository, and of the folder
// that the environment variable ONNXFIT_MODELS names.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "estimator/eager/cudnn_workspace.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/graph/loader.h"
#include "estimator/memory/timeline.h"
#include "estimator/report/json.h"
#include "tests/measured_card.h"
#include "tests/trace_helpers.h"

namespace onnxfit::laws_test {
namespace {

namespace fs = std::filesystem;

void AddModels(const fs::path& folder, std::vector<std::string>& paths) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".onnx" || extension == ".onnxtxt") paths.push_back(entry.path());
  }
}

std::vector<std::string> AllModels() {
  std::vector<std::string> paths;
  AddModels(fs::path(ONNXFIT_SOURCE_DIR) / "models", paths);
  if (const char* more = std::getenv("ONNXFIT_MODELS")) AddModels(more, paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Kinds but for what the allocator and CUDA take: what places add up to.
int64_t ExactAtPeak(const Estimate& estimate) {
  int64_t sum = estimate.device_bytes;
  for (const BreakdownRow& row : estimate.breakdown) {
    const bool is_exact = row.kind != "rounding" && row.kind != "cached" && row.kind != "context";
    if (!is_exact) sum -= row.bytes;
  }
  return sum;
}

void CheckPlaces(const Estimate& estimate) {
  int64_t sum = 0;
  std::set<std::string> names;
  for (const Place& place : estimate.places) {
    CAPTURE(place.name);
    sum += place.bytes;
    CHECK(names.insert(place.name).second);
    CHECK_FALSE(place.name.empty());
    CHECK_FALSE(place.op.empty());
  }
  CHECK(sum == ExactAtPeak(estimate));
}

void CheckTotals(const Estimate& estimate) {
  CheckPlaces(estimate);
  int64_t sum = 0;
  for (const BreakdownRow& row : estimate.breakdown) sum += row.bytes;
  CHECK(sum == estimate.device_bytes);
  CHECK(estimate.breakdown[static_cast<size_t>(Kind::kOptimizerState)].bytes <=
        estimate.optimizer_state_bytes);
  CHECK(std::all_of(estimate.breakdown.begin(), estimate.breakdown.end(),
                    [](const BreakdownRow& row) { return row.bytes >= 0; }));
}

TEST_CASE("totals add up, whatever is asked") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Graph graph = LoadGraph(path);
    for (const auto& optimizer : kOptimizers) {
      for (const auto& mode : kModes) {
        CAPTURE(std::string(optimizer.name));
        CAPTURE(std::string(mode.name));
        CheckTotals(
            MakeEstimate(graph, {.binding = {.batch = 2},
                                 .settings = {.optimizer = optimizer.value, .mode = mode.value}}));
      }
    }
  }
}

TEST_CASE("totals add up, whatever the loop and the allocator") {
  EstimateRequest request = {
      .binding = {.batch = 2},
      .settings = {.precision = Precision::kAmpFp16,
                   .optimizer_impl = OptimizerImpl::kFused,
                   .clip_grad = true,
                   .ema = true,
                   .loop = {.zero_grad = ZeroGrad::kKeep,
                            .hold_outputs = true,
                            .prefetch = 2,
                            .accumulate = 2}},
      .alloc_conf = {.conf = {.expandable_segments = true}},
      .details = true,
  };
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Estimate estimate = MakeEstimate(LoadGraph(path), request);
    CheckTotals(estimate);
    REQUIRE(estimate.step_events.size() == estimate.steps.size());
    for (size_t i = 0; i < estimate.steps.size(); ++i) {
      CHECK(estimate.step_events[i].peak_allocated_bytes == estimate.steps[i].peak.allocated_bytes);
    }
  }
}

// Plays `trace` event by event.  What is alive at its end, by buffer.
std::vector<bool> CheckEveryEvent(const Trace& trace, const AllocatorConf& conf = {}) {
  const auto source = NewCountingSource(int64_t{1} << 60);
  const auto caching = NewCachingAllocator(*source, conf);
  const auto exact = NewExactAllocator();
  std::vector<bool> alive(trace.buffers.size());
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kAlloc) {
      REQUIRE_FALSE(alive[static_cast<size_t>(event.id)]);
      alive[static_cast<size_t>(event.id)] = true;
      const int64_t bytes = trace.buffers[static_cast<size_t>(event.id)].bytes;
      REQUIRE(caching->Alloc(event.id, bytes));
      REQUIRE(exact->Alloc(event.id, bytes));
    } else if (event.type == Event::Type::kFree) {
      REQUIRE(alive[static_cast<size_t>(event.id)]);
      alive[static_cast<size_t>(event.id)] = false;
      caching->Free(event.id);
      exact->Free(event.id);
    }
    REQUIRE(caching->stats().requested_bytes == exact->stats().requested_bytes);
    const AllocatorStats stats = caching->stats();
    REQUIRE(stats.requested_bytes <= stats.allocated_bytes);
    REQUIRE(stats.allocated_bytes <= stats.reserved_bytes);
  }
  return alive;
}

Kind LastKind(const Trace& trace, size_t buffer) {
  Kind kind = Kind::kTemporary;
  for (const Event& event : trace.events) {
    const bool about_kind = event.type == Event::Type::kAlloc || event.type == Event::Type::kKind;
    if (about_kind && static_cast<size_t>(event.id) == buffer) kind = event.kind;
  }
  return kind;
}

TEST_CASE("requested <= allocated <= reserved, and nothing leaks") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const TrainingSettings settings;
    const Trace trace = Train(Build(LoadGraph(path), settings).program, settings);
    const std::vector<bool> alive = CheckEveryEvent(trace);
    CHECK(CheckEveryEvent(trace, {.expandable_segments = true}) == alive);
    int activations = 0;
    for (size_t i = 0; i < alive.size(); ++i) {
      if (!alive[i]) continue;
      const Kind kind = LastKind(trace, i);
      CAPTURE(trace.labels[static_cast<size_t>(trace.buffers[i].label)]);
      CHECK(kind != Kind::kTemporary);
      activations += kind == Kind::kActivation ? 1 : 0;
    }
    CHECK(activations == 1);  // the loss, which the loop names
  }
}

TEST_CASE("so it is where cuDNN's workspaces were measured") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Graph graph = LoadGraph(path);
    EstimateRequest request = {.binding = {.batch = 2}};
    const std::vector<Convolution> convolutions = ConvolutionsIn(graph, request);
    request.settings.device =
        MeasuredDevice(Shared(CalibrationOf(Workspaces(convolutions, /*bytes=*/100'001))));
    CheckTotals(MakeEstimate(graph, request));
    const Trace trace = Predict(graph, request).trace;
    const std::vector<bool> alive = CheckEveryEvent(trace);
    const auto workspaces =
        std::count_if(trace.buffers.begin(), trace.buffers.end(), [&](const Buffer& buffer) {
          return trace.labels[static_cast<size_t>(buffer.label)] == kCudnnWorkspace;
        });
    CHECK(workspaces >= 3 * static_cast<int64_t>(convolutions.size()));  // of three steps
    for (size_t i = 0; i < alive.size(); ++i) {
      const auto label = static_cast<size_t>(trace.buffers[i].label);
      CHECK_FALSE((alive[i] && trace.labels[label] == kCudnnWorkspace));
    }
    CHECK(ReadLoop(trace).repeats());
  }
}

TEST_CASE("a larger batch never lowers the exact peak") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Graph graph = LoadGraph(path);
    int64_t before = 0;
    for (const int64_t batch : {1, 2, 3, 8, 32}) {
      CAPTURE(batch);
      const Estimate estimate = MakeEstimate(graph, {.binding = {.batch = batch}});
      CHECK(estimate.peak.exact_bytes >= before);
      before = estimate.peak.exact_bytes;
    }
  }
}

TEST_CASE("the same input gives the same bytes") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const std::string first = ToJson(MakeEstimate(LoadGraph(path), {}), {});
    CHECK(first == ToJson(MakeEstimate(LoadGraph(path), {}), {}));
  }
}

TEST_CASE("the third step repeats the second") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const TrainingSettings settings = {.steps = 4};
    const Trace trace = Train(Build(LoadGraph(path), settings).program, settings);
    const Timeline timeline = Replay(trace);
    REQUIRE(timeline.steps.size() == 4);
    CHECK(timeline.steps[2].peak.exact_bytes == timeline.steps[1].peak.exact_bytes);
    CHECK(timeline.steps[3].peak.exact_bytes == timeline.steps[1].peak.exact_bytes);
  }
}

}  // namespace
}  // namespace onnxfit::laws_test
