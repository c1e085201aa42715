#include "estimator/workspaces/benchmarked_layers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tests/resnet_layer.h"

namespace onnxfit::benchmarked_layers_test {
namespace {

constexpr auto kForward = ConvolutionPass::kForward;
const DeviceProfile kHopperCard = {.compute_capability = 90, .multiprocessors = 132};

// Numbers below 128 are a byte each, 56 * 2 and such, too.
std::string RowOf(const Convolution& c, const std::string& batches) {
  std::string key = {static_cast<char>(c.pass), 0, 0, 0, 1};
  for (const int64_t size : {4, 64, 64, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 56, 56, 56, 56}) {
    key += static_cast<char>(size);
  }
  return std::string(1, static_cast<char>(key.size())) + key + batches;
}

TEST_CASE("a row is found by all of a layer but its batch") {
  const Convolution forward = ResnetLayer(kForward, 4);
  const BenchmarkedLayers layers(RowOf(forward, {2, 4, 100, 101, 32, '\x80', 6, 103}));
  REQUIRE(layers.size() == 1);
  CHECK(layers.Find(forward) == std::vector<BenchmarkedBatch>{{4, 100, 101}, {32, 768, 103}});
  CHECK(layers.Find(ResnetLayer(kForward, 7)).size() == 2);
  CHECK(layers.Find(ResnetLayer(ConvolutionPass::kWeightGradient, 4)).empty());
  Convolution strided = forward;
  strided.stride = {2, 2};
  CHECK(layers.Find(strided).empty());
}

TEST_CASE("rows that end early are an error") {
  const std::string row = RowOf(ResnetLayer(kForward, 4), {1, 4, 100, 101});
  CHECK_THROWS_AS(BenchmarkedLayers(row.substr(0, row.size() - 1)), const Error&);
  CHECK_THROWS_AS(BenchmarkedLayers(row.substr(0, 3)), const Error&);
}

// What torch 2.11.0 with cuDNN 9.19.0 kept and tried on an H200, to the byte.
TEST_CASE("calls are there at their own batch alone") {
  CHECK(FindBenchmarked(ResnetLayer(kForward, 32), kHopperCard) ==
        BenchmarkedBatch{32, 51'527'827, 207'765'504});
  CHECK_FALSE(FindBenchmarked(ResnetLayer(kForward, 16), kHopperCard));
  CHECK_FALSE(FindBenchmarked(ResnetLayer(kForward, 32), {.compute_capability = 80}));
  CHECK(BenchmarkedCard({.compute_capability = 80}).empty());
  Convolution exact = ResnetLayer(kForward, 32);
  exact.dtype = DType::kFloat64;
  CHECK_FALSE(FindBenchmarked(exact, kHopperCard));
}

}  // namespace
}  // namespace onnxfit::benchmarked_layers_test
