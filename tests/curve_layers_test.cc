#include "estimator/picture/curve_layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace onnxfit::curve_layers_test {
namespace {

Curve CurveOf(const std::vector<std::pair<Phase, size_t>>& phases) {
  Curve curve;
  for (const auto& [phase, points] : phases) {
    curve.points.insert(curve.points.end(), points, CurvePoint{.phase = phase});
  }
  return curve;
}

using Sizes = std::vector<int64_t>;

TEST_CASE("a curve is stretched over another phase by phase") {
  const Curve from = CurveOf({{Phase::kForward, 2}, {Phase::kBackward, 4}});
  const Curve to = CurveOf({{Phase::kForward, 4}, {Phase::kBackward, 2}});
  CHECK(StretchTo({1, 2, 30, 40, 50, 45}, from, to) == Sizes{1, 1, 2, 2, 40, 50});
  CHECK(StretchTo({1, 2, 3, 4}, CurveOf({{Phase::kForward, 4}}), to).size() == 6);
}

TEST_CASE("as one where the phases are others") {
  const Curve from = CurveOf({{Phase::kForward, 3}});
  const Curve to = CurveOf({{Phase::kForward, 3}, {Phase::kBackward, 3}});
  CHECK(StretchTo({1, 2, 3}, from, to) == Sizes{1, 1, 2, 2, 3, 3});
}

TEST_CASE("no peak is lost, whatever the lengths") {
  for (const size_t old_points : std::vector<size_t>{1, 5, 17, 300}) {
    for (const size_t points : std::vector<size_t>{1, 4, 66, 299}) {
      Sizes bytes(old_points, 1);
      bytes[old_points * 2 / 3] = 9;
      const Sizes stretched = StretchTo(bytes, CurveOf({{Phase::kForward, old_points}}),
                                        CurveOf({{Phase::kForward, points}}));
      CHECK(stretched.size() == points);
      CHECK(std::ranges::max(stretched) == 9);
    }
  }
}

}  // namespace
}  // namespace onnxfit::curve_layers_test
