// Answers that rest on what was measured.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/max_batch.h"
#include "estimator/onnx/loader.h"
#include "tests/measured_card.h"
#include "tests/paths.h"
#include "tests/seen_calls.h"

namespace onnxfit::calibrated_estimate_test {
namespace {

Graph Model(const std::string& name) {
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
}

const BreakdownRow& RowOf(const Estimate& estimate, const std::string& kind) {
  return *std::find_if(estimate.breakdown.begin(), estimate.breakdown.end(),
                       [&](const BreakdownRow& row) { return row.kind == kind; });
}

int64_t SumOf(const Estimate& estimate) {
  return std::accumulate(estimate.breakdown.begin(), estimate.breakdown.end(), int64_t{0},
                         [](int64_t sum, const BreakdownRow& row) { return sum + row.bytes; });
}

bool Says(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Of a batch, on the card that was measured; without the plans that come with the command.
EstimateRequest RequestOf(int64_t batch, const SharedCalibration& calibration) {
  EstimateRequest request = {.binding = {.batch = batch}};
  request.settings.device = MeasuredDevice(calibration);
  request.settings.device.without_cudnn = true;
  return request;
}

SharedCalibration MeasuredAt(const Graph& graph, int64_t batch, int64_t bytes) {
  const std::vector<Convolution> convolutions =
      ConvolutionsIn(graph, {.binding = {.batch = batch}});
  return Shared(CalibrationOf(Workspaces(convolutions, bytes)));
}

constexpr char kVersions[] =
    "as measured on NVIDIA A100-SXM4-40GB (driver 580.65.06, CUDA 13.0, cuBLAS 13.1.0, cuDNN "
    "9.19.0): ";

}  // namespace

TEST_CASE("on a measured card the workspaces are inside, and the context is that card's") {
  const Graph graph = Model("resnet18.train.onnx");
  const SharedCalibration calibration = MeasuredAt(graph, 8, 64 * kMiB);
  const Estimate plain = MakeEstimate(graph, {.binding = {.batch = 8}});
  const Estimate measured = MakeEstimate(graph, RequestOf(8, calibration));
  CHECK(SumOf(measured) == measured.device_bytes);
  CHECK(measured.peak.exact_bytes > plain.peak.exact_bytes);
  const BreakdownRow& workspaces = RowOf(measured, "workspaces");
  CHECK(workspaces.basis == Basis::kMeasured);
  // Those of cuBLAS, and one of cuDNN's.
  const int64_t of_cudnn = workspaces.bytes % (64 * kMiB);
  CHECK(workspaces.bytes > 64 * kMiB);
  CHECK(of_cudnn == RowOf(plain, "workspaces").bytes);
  CHECK(RowOf(plain, "workspaces").basis == Basis::kModelled);
  const BreakdownRow& context = RowOf(measured, "context");
  CHECK(context.bytes == 300 * kMiB);
  CHECK(context.low == 300 * kMiB);
  CHECK(context.high == 300 * kMiB);
  CHECK(context.basis == Basis::kMeasured);
  // Distinct ones: eleven shapes, of which the image's needs no gradient.
  CHECK(Says(measured.assumptions,
             std::string(kVersions) +
                 "its CUDA context, cuDNN's workspaces in 32 of 32 passes of convolutions"));
  CHECK_FALSE(Says(measured.assumptions, "convolutions ask cuDNN for no workspace"));
}

namespace {

// Answers as cuDNN would that is asked without a card.
class SameForAll : public WorkspaceSource {
 public:
  explicit SameForAll(std::optional<int64_t> bytes) : bytes_(bytes) {}
  std::optional<int64_t> Find(const Convolution&) override { return bytes_; }

 private:
  const std::optional<int64_t> bytes_;
};

SharedCalibration AskedOf(std::optional<int64_t> bytes, bool lacks_driver = false) {
  Calibration asked = {.card = kMeasuredCard};
  asked.lacks_driver = lacks_driver;
  asked.cudnn = "9.19.0";
  asked.basis = Basis::kModelled;
  asked.source = std::make_shared<SameForAll>(bytes);
  return Shared(asked);
}

}  // namespace

TEST_CASE("what cuDNN says without a card is inside, and is not called measured") {
  const Graph graph = Model("resnet18.train.onnx");
  const Estimate plain = MakeEstimate(graph, {.binding = {.batch = 8}});
  const Estimate asked = MakeEstimate(graph, RequestOf(8, AskedOf(64 * kMiB)));
  CHECK(SumOf(asked) == asked.device_bytes);
  CHECK(RowOf(asked, "workspaces").bytes == RowOf(plain, "workspaces").bytes + 64 * kMiB);
  CHECK(RowOf(asked, "workspaces").basis == Basis::kModelled);
  CHECK(RowOf(asked, "context").bytes == RowOf(plain, "context").bytes);
  CHECK(Says(asked.assumptions,
             "as cuDNN 9.19.0 chooses for NVIDIA A100-SXM4-40GB, asked without it: cuDNN's "
             "workspaces in 32 of 32 passes of convolutions"));

  const Estimate silent = MakeEstimate(graph, RequestOf(8, AskedOf(std::nullopt)));
  CHECK(silent.peak == plain.peak);
  CHECK(Says(silent.assumptions,
             "as cuDNN 9.19.0 chooses for NVIDIA A100-SXM4-40GB, asked without it: cuDNN's "
             "workspaces in 0 of 32 passes of convolutions, none in the others"));

  const Estimate less = MakeEstimate(graph, RequestOf(8, AskedOf(64 * kMiB, true)));
  CHECK(less.peak == asked.peak);
  CHECK(Says(less.assumptions,
             "as cuDNN 9.19.0 chooses for NVIDIA A100-SXM4-40GB, asked without it: cuDNN's "
             "workspaces in 32 of 32 passes of convolutions; for want of a libcuda.so.1 not from "
             "what it would compile"));
}

TEST_CASE("a cuDNN that another PyTorch brings is named") {
  EstimateRequest request = RequestOf(8, AskedOf(kMiB));
  const auto older = std::ranges::find(Frameworks(), "pytorch-2.6", &FrameworkProfile::name);
  REQUIRE(older != Frameworks().end());
  request.settings.framework = *older;
  CHECK(Says(MakeEstimate(Model("resnet18.train.onnx"), request).assumptions,
             "as cuDNN 9.19.0 (pytorch-2.6 brings 9.1.0) chooses for NVIDIA A100-SXM4-40GB, asked "
             "without it: cuDNN's workspaces in 32 of 32 passes of convolutions"));
}

TEST_CASE("--overhead goes before a measured context, not before workspaces") {
  const Graph graph = Model("resnet18.train.onnx");
  EstimateRequest request = RequestOf(8, MeasuredAt(graph, 8, kMiB));
  request.overhead_bytes = 0;
  const Estimate estimate = MakeEstimate(graph, request);
  CHECK(RowOf(estimate, "context").bytes == 0);
  CHECK(Says(estimate.assumptions,
             std::string(kVersions) + "cuDNN's workspaces in 32 of 32 passes of convolutions"));
}

TEST_CASE("what was not measured is said, and bounds the verdict") {
  const Graph graph = Model("resnet18.train.onnx");
  const std::vector<Convolution> all = ConvolutionsIn(graph, {.binding = {.batch = 8}});
  std::vector<ConvolutionWorkspace> some = Workspaces({all.begin(), all.begin() + 5}, kMiB);
  const EstimateRequest request = RequestOf(8, Shared(CalibrationOf(some)));
  CHECK(Says(MakeEstimate(graph, request).assumptions,
             std::string(kVersions) +
                 "its CUDA context, cuDNN's workspaces in 5 of 32 passes of convolutions, none in "
                 "the others"));
  const auto unmodelled = [&](const EstimateRequest& of) {
    return PredictLoop(graph, of).playable().unmodelled_bytes;
  };
  CHECK(unmodelled(request) > 0);
  CHECK(unmodelled(request) < unmodelled({.binding = {.batch = 8}}));
  CHECK(unmodelled(RequestOf(8, MeasuredAt(graph, 8, kMiB))) == 0);
  // Of another batch: nothing is measured.
  CHECK(unmodelled(RequestOf(9, MeasuredAt(graph, 8, kMiB))) ==
        unmodelled({.binding = {.batch = 9}}));
  CHECK(MakeEstimate(graph, RequestOf(9, MeasuredAt(graph, 8, kMiB))).peak ==
        MakeEstimate(graph, {.binding = {.batch = 9}}).peak);
}

TEST_CASE("a run without convolutions has a measured context alone") {
  const Graph graph = Model("linear.onnxtxt");
  const Estimate estimate = MakeEstimate(graph, RequestOf(8, Shared(CalibrationOf({}))));
  CHECK(Says(estimate.assumptions, std::string(kVersions) + "its CUDA context"));
  CHECK(RowOf(estimate, "workspaces").basis == Basis::kModelled);
}

TEST_CASE("a target takes what was measured on its card, and no other") {
  const Graph graph = Model("resnet18.train.onnx");
  const std::vector<SharedCalibration> calibrations = {MeasuredAt(graph, 8, 64 * kMiB)};
  const auto target = [&](const char* card) {
    return MakeTarget({.card = FindCard(card), .calibrations = calibrations});
  };
  CHECK(target("a100-40gb").device.calibration == calibrations[0]);
  CHECK(target("a100-40gb").device.context.bytes == 300 * kMiB);
  for (const char* other : {"a100-80gb", "t4", "h100"}) {
    CAPTURE(other);
    CHECK(target(other).device.calibration == nullptr);
    CHECK(target(other).device.context == FindCard(other)->device.context);
  }
  const Target bare = MakeTarget({.memory_bytes = 8 * kGiB, .calibrations = calibrations});
  CHECK(bare.device.calibration == nullptr);
  const Target given = MakeTarget(
      {.card = FindCard("a100-40gb"), .overhead_bytes = kMiB, .calibrations = calibrations});
  CHECK(given.device.context.bytes == kMiB);
  CHECK(given.device.calibration == calibrations[0]);

  // Of equal kernels, the measured card takes more.
  EstimateRequest request = {.binding = {.batch = 8}};
  request.targets = {target("a100-40gb"), target("a100-80gb")};
  request.settings.device = request.targets[0].device;
  const Estimate estimate = MakeEstimate(graph, request);
  REQUIRE(estimate.targets.size() == 2);
  const auto reserved = [&](size_t i) {
    return estimate.targets[i].judgement.used_bytes -
           estimate.targets[i].target.device.context.bytes;
  };
  CHECK(reserved(0) > reserved(1) + 64 * kMiB);
  request.settings.device = request.targets[1].device;
  std::swap(request.targets[0], request.targets[1]);
  const Estimate swapped = MakeEstimate(graph, request);
  CHECK(swapped.targets[1].judgement.used_bytes == estimate.targets[0].judgement.used_bytes);
  CHECK(swapped.targets[0].judgement.used_bytes == estimate.targets[1].judgement.used_bytes);
}

TEST_CASE("a measured batch among others is predicted, and leaves those as they were") {
  const Graph graph = Model("resnet18.train.onnx");
  const EstimateRequest plain = {.binding = {.batch = 1}};
  const EstimateRequest request = RequestOf(1, MeasuredAt(graph, 32, 64 * kMiB));
  const Study study(graph);
  BatchPrograms programs(study, request);
  BatchLoops loops(programs, request);
  for (const int64_t batch : {1, 64, 32, 40, 33, 31, 2}) {
    CAPTURE(batch);
    EstimateRequest at = batch == 32 ? request : plain;
    at.binding.batch = batch;
    const LoopedPrediction predicted = PredictLoop(graph, at);
    const PlayableRun run = loops.At(batch);
    CHECK(SeenCalls(run) == SeenCalls(predicted.playable()));
    CHECK(run.unmodelled_bytes == predicted.playable().unmodelled_bytes);
    at.settings.device.calibration = nullptr;
    CHECK(PeakBytes(loops.Unmeasured(batch)) == PeakBytes(PredictLoop(graph, at).playable()));
  }
  CHECK(loops.At(32).bytes != loops.Unmeasured(32).bytes);
}

TEST_CASE("the largest batch: one that was measured counts as measured") {
  const Graph graph = Model("resnet18.train.onnx");
  const auto largest = [&](std::vector<SharedCalibration> calibrations, int64_t most) {
    const Target target = MakeTarget({.card = FindCard("a100-40gb"),
                                      .memory_bytes = 2 * kGiB,
                                      .overhead_bytes = 0,
                                      .calibrations = calibrations});
    EstimateRequest request;
    request.settings.device = target.device;
    return FindMaxBatches(graph, request, {&target, 1}, {.most = most})[0];
  };
  const MaxBatch plain = largest({}, 1 << 20);
  REQUIRE(plain.batch > 20);
  const int64_t measured = plain.batch - plain.batch / 4;
  // Workspaces that the card holds beside the rest, and some that it does not: PyTorch goes on to
  // plans that need none.
  CHECK(largest({MeasuredAt(graph, measured, 1)}, 1 << 20).batch == plain.batch);
  const std::vector<SharedCalibration> huge = {MeasuredAt(graph, measured, kGiB)};
  CHECK(largest(huge, 1 << 20).batch == plain.batch);
  // One that the search looks at on its way up.
  CHECK(largest({MeasuredAt(graph, 8, kGiB)}, 1 << 20).batch == plain.batch);
  CHECK(largest(huge, measured).batch == measured);
  CHECK(largest({}, measured).batch == measured);
}

TEST_CASE("cards of equal kernels are searched apart where one was measured") {
  const Graph graph = Model("resnet18.train.onnx");
  const std::vector<SharedCalibration> calibrations = {MeasuredAt(graph, 8, kGiB)};
  std::vector<Target> targets;
  for (const char* card : {"a100-80gb", "a100-40gb"}) {
    targets.push_back(MakeTarget({.card = FindCard(card),
                                  .memory_bytes = 2 * kGiB,
                                  .overhead_bytes = 0,
                                  .calibrations = calibrations}));
  }
  EstimateRequest request;
  request.settings.device = targets[0].device;
  const std::vector<MaxBatch> found = FindMaxBatches(graph, request, targets, {.most = 8});
  CHECK(found[0].judgement.retries == 0);
  CHECK(found[1].judgement.retries > 0);  // before it goes on without a workspace
}

}  // namespace onnxfit::calibrated_estimate_test
