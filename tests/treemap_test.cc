#include "estimator/picture/treemap.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace onnxfit::treemap_test {
namespace {

constexpr Rectangle kBox = {10, 20, 600, 400};

double Overlap(const Rectangle& a, const Rectangle& b) {
  const double width = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
  const double height = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
  return std::max(width, 0.0) * std::max(height, 0.0);
}

// The example of the paper's section 3: 6, 6, 4, 3, 2, 2, 1 in 6 × 4.
TEST_CASE("areas are those of the paper's example") {
  const double sizes[] = {6, 6, 4, 3, 2, 2, 1};
  const std::vector<Rectangle> areas = Squarify(sizes, {0, 0, 6, 4});
  REQUIRE(areas.size() == 7);
  CHECK(areas[0].width == doctest::Approx(3));  // two of 3 × 2 above each other
  CHECK(areas[0].height == doctest::Approx(2));
  CHECK(areas[1].y == doctest::Approx(2));
  CHECK(areas[2].x == doctest::Approx(3));  // then 4 and 3 beside each other
  CHECK(areas[2].height == doctest::Approx(7.0 / 3));
}

TEST_CASE("areas are as large as their shares, inside of the box and apart") {
  const std::vector<double> sizes = {50, 30, 30, 8, 5, 5, 1, 0.5, 0.01};
  double total = 0;
  for (const double size : sizes) total += size;
  const std::vector<Rectangle> areas = Squarify(sizes, kBox);
  REQUIRE(areas.size() == sizes.size());
  for (size_t i = 0; i < areas.size(); ++i) {
    CAPTURE(i);
    const Rectangle& area = areas[i];
    CHECK(area.width * area.height == doctest::Approx(sizes[i] / total * 600 * 400));
    CHECK(Overlap(area, kBox) == doctest::Approx(area.width * area.height));
    for (size_t j = 0; j < i; ++j) CHECK(Overlap(area, areas[j]) < 1e-6);
  }
}

TEST_CASE("nothing has no areas") { CHECK(Squarify({}, kBox).empty()); }

}  // namespace
}  // namespace onnxfit::treemap_test
