// Areas that fill a rectangle: squarified treemaps (Bruls, Huizing, van Wijk, "Squarified
// Treemaps", 2000).  Internal to the room picture/.
#pragma once

#include <span>
#include <vector>

namespace onnxfit {

struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// A part of `field` for each of `sizes`, of as large a share of its area, as close to squares as
// rows of them get.  REQUIRES: sizes are above 0 and fall.  O(sizes²) at worst.
std::vector<Rectangle> Squarify(std::span<const double> sizes, const Rectangle& field);

}  // namespace onnxfit
