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

// `before`: drawn over it as a line, in the same scale.  REQUIRES: their curves have points.
DrawnCurve DrawCurve(const Estimate& estimate, const Estimate* before = nullptr);

// From the top layer down, each from the bottom up to its upper edge: the ones below lie over it.
std::string DrawLayers(const std::vector<Layer>& layers, int64_t top);

// A line of bytes by point.
std::string DrawLine(std::string_view name, std::vector<int64_t> bytes, int64_t top);

// The upper edge of a plot: a round size above `peak`, and above the lines that are not far above.
int64_t TopOf(const std::vector<CardLine>& lines, int64_t peak);

// `bytes` of the points of `from` at the points of `to`, phase by phase where both have the same
// ones: of what falls on a point the most, so that no peak is lost.  REQUIRES: both have points.
std::vector<int64_t> StretchTo(const std::vector<int64_t>& bytes, const Curve& from,
                               const Curve& to);

// "Memory over step 2, by kind. The most, 2.92 GiB allocated, in backward, at NODE."
std::string CurveLabel(const Estimate& estimate);

// Colours of an image of its own, in light and dark.
std::string SvgStyle();

}  // namespace onnxfit
