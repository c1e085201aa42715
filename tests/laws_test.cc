// The laws of docs/contributing/architecture.md on every model of the repository, and of the folder
// that the environment variable ONNXFIT_MODELS names.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/report/estimate.h"
#include "estimator/transforms/linear_layers.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "tests/measured_card.h"
#include "tests/paths.h"
#include "tests/slow_allocator.h"
#include "tests/trace_walk.h"

namespace onnxfit::laws_test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kEndless = int64_t{1} << 60;

// At least as many as there are: a folder that is lost does not pass.
void AddModels(const fs::path& folder, size_t floor, std::vector<std::string>& paths) {
  size_t found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".onnx" && extension != ".onnxtxt" && extension != ".pt2") continue;
    paths.push_back(entry.path());
    ++found;
  }
  CAPTURE(folder.string());
  REQUIRE(found >= floor);
}

std::vector<std::string> AllModels() {
  std::vector<std::string> paths;
  const fs::path root = kSourceDir;
  AddModels(root / "models", 23, paths);
  AddModels(root / "tests/data/pt2", 3, paths);
  if (const char* more = std::getenv("ONNXFIT_MODELS")) AddModels(more, 1, paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

int64_t RowBytes(const Estimate& estimate, std::string_view kind) {
  const auto row = std::ranges::find(estimate.breakdown, kind, &BreakdownRow::kind);
  REQUIRE(row != estimate.breakdown.end());
  return row->bytes;
}

void CheckPlaces(const Estimate& estimate, const Walk& walk) {
  int64_t sum = 0;
  std::set<std::string> names;
  for (const Place& place : estimate.places) {
    CAPTURE(place.name);
    sum += place.bytes;
    CHECK(names.insert(place.name).second);
    CHECK_FALSE(place.name.empty());
    CHECK_FALSE(place.op.empty());
  }
  CHECK(sum == walk.exact_there);
  int64_t largest = 0;
  for (const LargeTensor& tensor : estimate.largest) largest += tensor.bytes;
  CHECK(largest == walk.exact_there);
}

// The rows are those of the instant of the largest allocated, and no others.
void CheckBreakdown(const Estimate& estimate, const Walk& walk, int64_t context_bytes) {
  CHECK(estimate.breakdown.size() == kKinds + 3);
  for (int i = 0; i < kKinds; ++i) {
    const std::string_view kind = ToString(static_cast<Kind>(i));
    CAPTURE(std::string(kind));
    CHECK(RowBytes(estimate, kind) == walk.by_kind[static_cast<size_t>(i)]);
  }
  CHECK(RowBytes(estimate, "rounding") == walk.peak_allocated - walk.exact_there);
  CHECK(RowBytes(estimate, "cached") == walk.peak_reserved - walk.peak_allocated);
  CHECK(RowBytes(estimate, "context") == context_bytes);
  CHECK(estimate.device_bytes == walk.peak_reserved + context_bytes);
  for (const BreakdownRow& row : estimate.breakdown) {
    CAPTURE(row.kind);
    CHECK(row.bytes >= 0);
    CHECK(row.low.value_or(row.bytes) <= row.bytes);
    CHECK(row.high.value_or(row.bytes) >= row.bytes);
  }
}

void CheckPeaks(const Estimate& estimate, const Walk& walk) {
  CHECK(estimate.peak_step == walk.step);
  CHECK(estimate.peak_phase == ToString(walk.phase));
  CHECK(estimate.peak_node == walk.at);
  REQUIRE(estimate.steps.size() + 1 == walk.steps.size());
  Peak largest = walk.steps[0].peak;
  for (size_t i = 0; i < estimate.steps.size(); ++i) {
    CAPTURE(i);
    const Peak& peak = walk.steps[i + 1].peak;
    CHECK(estimate.steps[i].peak == peak);
    largest = {std::max(largest.exact_bytes, peak.exact_bytes),
               std::max(largest.allocated_bytes, peak.allocated_bytes),
               std::max(largest.reserved_bytes, peak.reserved_bytes)};
  }
  CHECK(estimate.peak == largest);
}

void CheckRange(const Estimate& estimate) {
  if (!estimate.range) return;
  CHECK(estimate.range->low.device_bytes <= estimate.device_bytes);
  CHECK(estimate.range->high.device_bytes >= estimate.device_bytes);
}

void CheckTotals(const Estimate& estimate, const Walk& walk, int64_t context_bytes) {
  CheckPlaces(estimate, walk);
  CheckBreakdown(estimate, walk, context_bytes);
  CheckPeaks(estimate, walk);
  CheckRange(estimate);
}

// Through the product's allocator, whose twin is slow_allocator.h (the next test).
Walk WalkOf(const Trace& trace, const AllocatorConf& conf = {}) {
  const auto source = NewCountingSource(kEndless);
  const auto allocator = NewCachingAllocator(*source, conf);
  return WalkTrace(trace, *allocator);
}

Walk SlowWalkOf(const Trace& trace, const AllocatorConf& conf = {}) {
  SlowAllocator allocator(kEndless, conf);
  return WalkTrace(trace, allocator);
}

// What these keep for each parameter, in copies of it (torch/optim: state[p]).
constexpr std::pair<Optimizer, int64_t> kStateCopies[] = {
    {Optimizer::kNone, 0},    {Optimizer::kSgd, 0},   {Optimizer::kSgdMomentum, 1},
    {Optimizer::kAdam, 2},    {Optimizer::kAdamW, 2}, {Optimizer::kRmsprop, 1},
    {Optimizer::kAdagrad, 1}, {Optimizer::kLion, 1},
};

void CheckStates(const Estimate& estimate, Optimizer optimizer, Mode mode) {
  CHECK(RowBytes(estimate, "optimizer_state") <= estimate.optimizer_state_bytes);
  for (const auto& [known, copies] : kStateCopies) {
    if (known != optimizer) continue;
    const int64_t expected = mode == Mode::kTrain ? copies * estimate.model.parameter_bytes : 0;
    CHECK(estimate.optimizer_state_bytes == expected);
  }
}

// GaLore is of linear layers, which not all models have; SparseAdam of sparse gradients, which no
// ONNX file has.
bool IsFor(Optimizer optimizer, const Graph& graph) {
  if (optimizer == Optimizer::kSparseAdam) return false;
  if (optimizer != Optimizer::kGaLore) return true;
  return !FindLinearLayers(PrepareRun(graph, {.binding = {.batch = 2}}).program).empty();
}

TEST_CASE("totals add up, whatever is asked") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Graph graph = LoadModel(path);
    for (const auto& optimizer : kOptimizers) {
      for (const auto& mode : kModes) {
        const bool is_asked = mode.value == Mode::kTrain || optimizer.value == Optimizer::kAdamW;
        if (!is_asked) continue;  // inference has no optimizer
        if (!IsFor(optimizer.value, graph)) continue;
        CAPTURE(std::string(optimizer.name));
        CAPTURE(std::string(mode.name));
        const EstimateRequest request = {.binding = {.batch = 2},
                                         .settings = {.optimizer = optimizer.value,
                                                      .mode = mode.value,
                                                      .galore = {.targets = {"all-linear"}}},
                                         .wants_range = false};
        const Estimate estimate = MakeEstimate(graph, request);
        CheckTotals(estimate, WalkOf(Predict(graph, request).trace), 503 * kMiB);
        CheckStates(estimate, optimizer.value, mode.value);
      }
    }
  }
}

// What an allocator holds is not left to the one that is tested.
TEST_CASE("so they do by an allocator that looks at everything") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Graph graph = LoadModel(path);
    const EstimateRequest request = {.binding = {.batch = 2}};
    const Walk walk = SlowWalkOf(Predict(graph, request).trace);
    CheckTotals(MakeEstimate(graph, request), walk, 503 * kMiB);
  }
}

TEST_CASE("the context is the card's, or what is said instead") {
  struct Row {
    const char* card;
    int64_t context_mib;
  };
  const Row rows[] = {{"t4", 136}, {"rtx3060", 119}, {"p4", 137}, {"l4", 235}};
  const Graph graph = LoadModel(AllModels()[0]);
  for (const Row& row : rows) {
    CAPTURE(row.card);
    EstimateRequest request = {.settings = {.device = FindCard(row.card)->device}};
    const Walk walk = WalkOf(Predict(graph, request).trace);
    CheckTotals(MakeEstimate(graph, request), walk, row.context_mib * kMiB);
    request.overhead_bytes = 12'345;
    CheckTotals(MakeEstimate(graph, request), walk, 12'345);
  }
}

void CheckStepEvents(const Estimate& estimate, const Walk& walk) {
  REQUIRE(estimate.step_events.size() + 1 == walk.steps.size());
  for (size_t i = 0; i < estimate.step_events.size(); ++i) {
    const StepSummary& summary = estimate.step_events[i];
    const WalkedStep& step = walk.steps[i + 1];
    CHECK(summary.peak_allocated_bytes == step.peak.allocated_bytes);
    CHECK(summary.allocations == step.allocations);
    CHECK(summary.frees == step.frees);
  }
}

TEST_CASE("totals add up, whatever the loop and the allocator") {
  const EstimateRequest request = {
      .binding = {.batch = 2},
      .settings = {.precision = Precision::kAmpFp16,
                   .optimizer_impl = OptimizerImpl::kFused,
                   .clip_grad = true,
                   .ema = true,
                   .loop = {.zero_grad = ZeroGrad::kKeep,
                            .hold_outputs = true,
                            .drop_batch = true,
                            .prefetch = 2,
                            .accumulate = 2}},
      .alloc_conf = {.conf = {.expandable_segments = true}},
      .details = true,
  };
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Graph graph = LoadModel(path);
    const Estimate estimate = MakeEstimate(graph, request);
    const Walk walk = SlowWalkOf(Predict(graph, request).trace, request.alloc_conf.conf);
    CheckTotals(estimate, walk, 503 * kMiB);
    CheckStepEvents(estimate, walk);
  }
}

// Plays `trace` event by event.  What is alive at its end, by buffer.
std::vector<bool> CheckEveryEvent(const Trace& trace, const AllocatorConf& conf = {}) {
  const auto source = NewCountingSource(kEndless);
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
    const Trace trace = Predict(LoadModel(path), {}).trace;
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
    const Graph graph = LoadModel(path);
    EstimateRequest request = {.binding = {.batch = 2}};
    const std::vector<Convolution> convolutions = ConvolutionsIn(graph, request);
    request.settings.device =
        MeasuredDevice(Shared(CalibrationOf(Workspaces(convolutions, /*bytes=*/100'001))));
    const Trace trace = Predict(graph, request).trace;
    CheckTotals(MakeEstimate(graph, request), WalkOf(trace), 300 * kMiB);
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
    const Graph graph = LoadModel(path);
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
    const std::string first = ToJson(MakeEstimate(LoadModel(path), {}), {});
    CHECK(first == ToJson(MakeEstimate(LoadModel(path), {}), {}));
  }
}

// An event of a step, told without ids: a buffer is the nth of the step that many steps ago.
struct Told {
  Event::Type type;
  Kind kind;
  Phase phase;
  int64_t bytes;
  int32_t steps_ago;
  int64_t nth;
  std::string label;

  bool operator==(const Told&) const = default;
};

// Setup's buffers, which stay, are told by their place there alone.
std::vector<std::vector<Told>> TellSteps(const Trace& trace) {
  std::vector<std::vector<Told>> steps(1);
  std::map<BufferId, std::pair<int32_t, int64_t>> births;
  std::vector<int64_t> born(1);
  for (const Event& event : trace.events) {
    const bool begins =
        event.type == Event::Type::kPhase && static_cast<size_t>(event.id) == steps.size();
    if (begins) steps.emplace_back();
    if (begins) born.push_back(0);
    const auto step = static_cast<int32_t>(steps.size()) - 1;
    Told told = {event.type, event.kind, event.phase, 0, 0, 0, ""};
    if (event.type == Event::Type::kAt) told.label = LabelText(trace, event.id);
    if (event.type == Event::Type::kAlloc) births[event.id] = {step, born.back()++};
    if (event.type != Event::Type::kAt && event.type != Event::Type::kPhase) {
      const auto [birth, nth] = births.at(event.id);
      const Buffer& buffer = trace.buffers[static_cast<size_t>(event.id)];
      told.bytes = buffer.bytes;
      told.label = LabelText(trace, buffer.label);
      told.steps_ago = birth == 0 ? -1 : step - birth;
      told.nth = nth;
    }
    steps.back().push_back(told);
  }
  return steps;
}

TEST_CASE("steps repeat from the third on, event for event") {
  for (const std::string& path : AllModels()) {
    CAPTURE(path);
    const Prediction prediction = Predict(LoadModel(path), {.settings = {.steps = 5}});
    const auto steps = TellSteps(prediction.trace);
    REQUIRE(steps.size() == 6);
    CHECK((steps[4] == steps[3]));
    CHECK((steps[5] == steps[3]));
    CHECK(ReadLoop(prediction.trace).repeats());
  }
}

}  // namespace
}  // namespace onnxfit::laws_test
