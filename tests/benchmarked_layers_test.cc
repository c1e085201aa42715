#include "estimator/workspaces/measured_layers.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/workspaces/cudnn_workspaces.h"
#include "tests/resnet_layer.h"

namespace onnxfit::measured_layers_test {
namespace {

const DeviceProfile kHopperCard = {.compute_capability = 90, .multiprocessors = 132};

constexpr int64_t kWeightBytes = 4 * 64 * 64 * 9;
constexpr int64_t TensorBytes(int64_t batch) { return 4 * batch * 64 * 56 * 56; }

// Numbers below 128 are a byte each, 56 * 2 and such, too.
std::string RowOf(const Convolution& c, const std::string& batches) {
  std::string key = {static_cast<char>(c.pass), 0, 0, 0, 1};
  for (const int64_t size : {64, 56, 56, 64, 64, 3, 3, 64, 56, 56, 1, 1, 1, 1, 1, 1}) {
    key += static_cast<char>(size);
  }
  return std::string(1, static_cast<char>(key.size())) + key + batches;
}

TEST_CASE("a row is found by all of a layer but its batch") {
  const Convolution forward = ResnetLayer(ConvolutionPass::kForward, 4);
  const MeasuredLayers layers(RowOf(forward, {2, 4, 100, 32, '\x80', 6}));
  REQUIRE(layers.size() == 1);
  CHECK(layers.Find(forward) == std::vector<MeasuredBatch>{{4, 100}, {32, 768}});
  CHECK(layers.Find(ResnetLayer(ConvolutionPass::kForward, 7)).size() == 2);
  CHECK(layers.Find(ResnetLayer(ConvolutionPass::kWeightGradient, 4)).empty());
  Convolution strided = forward;
  strided.stride = {2, 2};
  CHECK(layers.Find(strided).empty());
}

TEST_CASE("rows that end early are an error") {
  const std::string row = RowOf(ResnetLayer(ConvolutionPass::kForward, 4), {1, 4, 100});
  CHECK_THROWS_AS(MeasuredLayers(row.substr(0, row.size() - 1)), const Error&);
  CHECK_THROWS_AS(MeasuredLayers(row.substr(0, 3)), const Error&);
}

TEST_CASE("a benchmarked row has what was tried, too") {
  const Convolution forward = ResnetLayer(ConvolutionPass::kForward, 4);
  const MeasuredLayers layers(RowOf(forward, {2, 4, 100, 101, 32, 102, 103}), true);
  CHECK(layers.Find(forward) == std::vector<MeasuredBatch>{{4, 100, 101}, {32, 102, 103}});
}

// What torch 2.11.0 with cuDNN 9.19.0 asked for on an H200, to the byte.
TEST_CASE("an H200's are there") {
  CHECK(FindLayer(ResnetLayer(ConvolutionPass::kForward, 32), kHopperCard) ==
        KnownLayer{.bytes = TensorBytes(32) + kWeightBytes + 16, .is_very = true});
  CHECK(FindLayer(ResnetLayer(ConvolutionPass::kWeightGradient, 4), kHopperCard) ==
        KnownLayer{.bytes = 15'040'512, .is_very = true});
  CHECK_FALSE(FindLayer(ResnetLayer(ConvolutionPass::kForward, 16), kHopperCard)->is_very);
}

TEST_CASE("its benchmarked calls are there, at their own batch alone") {
  CHECK(FindBenchmarked(ResnetLayer(ConvolutionPass::kForward, 32), kHopperCard) ==
        KnownLayer{51'527'827, 207'765'504, true});
  CHECK_FALSE(FindBenchmarked(ResnetLayer(ConvolutionPass::kForward, 16), kHopperCard));
  CHECK_FALSE(
      FindBenchmarked(ResnetLayer(ConvolutionPass::kForward, 32), {.compute_capability = 80}));
}

TEST_CASE("the form does not overrule them, a measurement on the card does") {
  const Convolution forward = ResnetLayer(ConvolutionPass::kForward, 32);
  CHECK(FormedWorkspaceBytes(forward) != TensorBytes(32) + kWeightBytes + 16);
  CHECK(WorkspaceBytes(forward, {.device = kHopperCard}) == TensorBytes(32) + kWeightBytes + 16);
  Calibration own;
  own.convolutions = {{forward, 77}};
  DeviceProfile device = kHopperCard;
  device.calibration = std::make_shared<const Calibration>(own);
  CHECK(WorkspaceBytes(forward, {.device = device}) == 77);
}

TEST_CASE("cards unlike those that were measured have none") {
  const Convolution forward = ResnetLayer(ConvolutionPass::kForward, 32);
  CHECK_FALSE(FindLayer(forward, {.compute_capability = 80, .multiprocessors = 132}));
  CHECK(MeasuredLayersCard({.compute_capability = 80}).empty());
  // Of another size the library may choose other parts.
  const DeviceProfile smaller = {.compute_capability = 90, .multiprocessors = 114};
  REQUIRE(FindLayer(forward, smaller));
  CHECK_FALSE(FindLayer(forward, smaller)->is_very);
  Convolution exact = forward;
  exact.dtype = DType::kFloat64;
  CHECK_FALSE(FindLayer(exact, kHopperCard));
}

struct BatchRow {
  const char* name;
  std::vector<MeasuredBatch> measured;
  int64_t batch;
  int64_t bytes;
};

TEST_CASE("at another batch") {
  const auto copies = [](int64_t batch) { return 2 * TensorBytes(batch) + kWeightBytes + 16; };
  const BatchRow rows[] = {
      {"copies of the same tensors", {{4, copies(4)}, {32, 5}}, 8, copies(8)},
      {"copies as at the further one", {{4, 1'000'000}, {32, copies(32)}}, 8, copies(8)},
      {"nothing, then copies, as the form has it", {{4, 0}, {32, copies(32)}}, 8, copies(8)},
      {"copies, then others, as at the nearest", {{4, kWeightBytes}, {32, 16}}, 8, kWeightBytes},
      {"nothing as at the nearest", {{4, 0}, {32, 1'000'000}}, 8, 0},
      {"not nothing as at the further one", {{4, 1'400'000}, {32, 0}}, 8, 1'200'000},
      {"on the line between", {{4, 1'000'000}, {32, 3'800'000}}, 16, 2'200'000},
      {"beyond, as many a sample", {{4, 1'000'000}, {32, 3'200'000}}, 64, 6'400'000},
      {"below, too", {{4, 1'000'000}, {32, 3'200'000}}, 1, 250'000},
      {"of one alone", {{4, 1'000'000}}, 8, 2'000'000},
  };
  for (const BatchRow& row : rows) {
    CAPTURE(std::string(row.name));
    CHECK(AtBatch(ResnetLayer(ConvolutionPass::kForward, row.batch), row.measured) == row.bytes);
  }
}

}  // namespace
}  // namespace onnxfit::measured_layers_test
