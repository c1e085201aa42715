// The curve of a step as a drawing, for the page and for an image.  Internal to the room picture/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/picture/layers.h"
#include "estimator/picture/page_parts.h"

namespace onnxfit {

struct DrawnCurve {
  std::vector<Layer> layers;    // from the bottom up
  std::vector<CardLine> lines;  // of cards
  int64_t top = 0;              // bytes at the upper edge
  std::string drawing = {};     // paths in a box of points × kPlotHeight
};

// REQUIRES: estimate.curve has points.
DrawnCurve DrawCurve(const Estimate& estimate);

// "Memory over step 2, by kind. The most, 2.92 GiB allocated, in backward, at NODE."
std::string CurveLabel(const Estimate& estimate);

// Colours of an image of its own, in light and dark.
std::string SvgStyle();

}  // namespace onnxfit
