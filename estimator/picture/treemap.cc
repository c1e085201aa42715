#include "estimator/picture/treemap.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace onnxfit {
namespace {

double SumOf(std::span<const double> sizes) {
  double sum = 0;
  for (const double size : sizes) sum += size;
  return sum;
}

// How far from a square the worst area of a row along a side of `side` is.
double WorstOf(std::span<const double> row, double side) {
  const double thickness = SumOf(row) / side;
  double worst = 1;
  for (const double area : row) {
    const double length = area / thickness;
    worst = std::max({worst, length / thickness, thickness / length});
  }
  return worst;
}

// How many of `areas` are best put in one row.
size_t RowLength(std::span<const double> areas, double side) {
  size_t count = 1;
  double worst = WorstOf(areas.first(1), side);
  while (count < areas.size()) {
    const double next = WorstOf(areas.first(count + 1), side);
    if (next > worst) break;
    worst = next;
    ++count;
  }
  return count;
}

// Lays a row along the shorter side of `field`, and takes it off.
void LayRow(std::span<const double> row, Rectangle& field, std::vector<Rectangle>& placed) {
  const bool is_wide = field.width >= field.height;
  const double thickness = SumOf(row) / (is_wide ? field.height : field.width);
  double at = is_wide ? field.y : field.x;
  for (const double area : row) {
    const double length = area / thickness;
    placed.push_back(is_wide ? Rectangle{field.x, at, thickness, length}
                             : Rectangle{at, field.y, length, thickness});
    at += length;
  }
  (is_wide ? field.x : field.y) += thickness;
  (is_wide ? field.width : field.height) -= thickness;
}

}  // namespace

std::vector<Rectangle> Squarify(std::span<const double> sizes, const Rectangle& field) {
  const double total = SumOf(sizes);
  std::vector<double> areas;
  for (const double size : sizes) areas.push_back(size / total * field.width * field.height);
  std::vector<Rectangle> placed;
  Rectangle left = field;
  for (std::span<const double> rest(areas); !rest.empty();) {
    const double side =
        std::max(std::min(left.width, left.height), std::numeric_limits<double>::min());
    const size_t count = RowLength(rest, side);
    LayRow(rest.first(count), left, placed);
    rest = rest.subspan(count);
  }
  return placed;
}

}  // namespace onnxfit
