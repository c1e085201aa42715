#include "estimator/picture/layers.h"

#include <doctest/doctest.h>

#include "estimator/base/bytes.h"

namespace onnxfit::layers_test {
namespace {

TEST_CASE("ticks are round sizes from 0 to the first that is not below") {
  struct Row {
    int64_t most;
    std::vector<int64_t> ticks;
  };
  const Row rows[] = {
      {3 * kGiB, {0, kGiB, 2 * kGiB, 3 * kGiB}},
      {3 * kGiB + 1, {0, kGiB, 2 * kGiB, 3 * kGiB, 4 * kGiB}},
      {18 * kMiB, {0, 4 * kMiB, 8 * kMiB, 12 * kMiB, 16 * kMiB, 20 * kMiB}},
      {100, {0, kKiB}},
  };
  for (const Row& row : rows) CHECK(ByteTicks(row.most) == row.ticks);
}

TEST_CASE("there are few ticks, whatever the size") {
  for (int64_t most = 1; most < int64_t{1} << 61; most += most / 2 + 1) {
    CAPTURE(most);
    const std::vector<int64_t> ticks = ByteTicks(most);
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 7);
    CHECK(ticks.back() >= most);
    CHECK(ticks[ticks.size() - 2] < most);
  }
}

TEST_CASE("where nothing is held an axis has a size, too") { CHECK(ByteTicks(0).size() == 2); }

TEST_CASE("ticks are short") {
  CHECK(TickText(0) == "0");
  CHECK(TickText(4 * kGiB) == "4 GiB");
  CHECK(TickText(5 * kGiB / 2) == "2.5 GiB");
  CHECK(TickText(512 * kMiB) == "512 MiB");
}

TEST_CASE("outlines are steps, equal ones together") {
  const int64_t heights[] = {3, 3, 5, 0};
  CHECK(AreaPath(heights, 10) == "M0 10V7h2v-2h1v5h1V10z");
  CHECK(LinePath(heights, 10) == "M0 7h2v-2h1v5h1");
  CHECK(AreaPath({}, 10).empty());
}

// Two instants: the kinds, rounding and the context add up to what is on the device.
TEST_CASE("layers add up to what is allocated, and the context") {
  Estimate estimate;
  estimate.device_bytes = 1000;
  estimate.peak.reserved_bytes = 700;
  estimate.curve.emplace();
  CurvePoint point;
  point.bytes[static_cast<size_t>(Kind::kParameter)] = 100;
  point.bytes[static_cast<size_t>(Kind::kActivation)] = 30;
  point.allocated_bytes = 150;
  point.reserved_bytes = 700;
  estimate.curve->curve.points = {point, point};
  const std::vector<Layer> layers = LayersOf(estimate);
  REQUIRE(layers.size() == 4);
  CHECK(layers[0].kind == "context");
  CHECK(layers[0].bytes == std::vector<int64_t>{300, 300});
  CHECK(layers[1].kind == "parameters");
  CHECK(layers[2].kind == "activations");
  CHECK(layers[3].kind == "rounding");
  CHECK(layers[3].bytes == std::vector<int64_t>{20, 20});
  CHECK(ReservedOnDevice(estimate) == std::vector<int64_t>{1000, 1000});
}

}  // namespace
}  // namespace onnxfit::layers_test
