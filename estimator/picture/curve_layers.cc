#include "estimator/picture/curve_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"

namespace onnxfit {
namespace {

// The upper edge: a round size above the peak, and above the cards that are not far above it.
int64_t TopOf(const Estimate& estimate, int64_t peak) {
  int64_t top = peak;
  for (const CardLine& line : CardLines(estimate, peak)) {
    if (line.bytes / 4 <= peak) top = std::max(top, line.bytes);
  }
  return ByteTicks(top + std::min(top / 50, std::numeric_limits<int64_t>::max() - top)).back();
}

// From the top layer down, each from the bottom up to its upper edge: the ones below lie over it.
std::string DrawLayers(const std::vector<Layer>& layers, int64_t top) {
  const size_t points = layers.empty() ? 0 : layers[0].bytes.size();
  std::vector<int64_t> sums(points);
  std::string text;
  for (const Layer& layer : layers) {
    std::vector<int64_t> heights(points);
    for (size_t i = 0; i < points; ++i) {
      sums[i] += layer.bytes[i];
      heights[i] = HeightOf(sums[i], top);
    }
    text = Element("path",
                   {{"class", KindClass(layer.kind)}, {"d", AreaPath(heights, kPlotHeight)}}, "") +
           text;
  }
  return text;
}

std::string DrawReserved(const Estimate& estimate, int64_t top) {
  std::vector<int64_t> heights = ReservedOnDevice(estimate);
  for (int64_t& height : heights) height = HeightOf(height, top);
  return Element("path", {{"class", "reserved"}, {"d", LinePath(heights, kPlotHeight)}}, "");
}

}  // namespace

DrawnCurve DrawCurve(const Estimate& estimate) {
  const int64_t peak = std::ranges::max(ReservedOnDevice(estimate));
  DrawnCurve drawn = {.layers = LayersOf(estimate),
                      .lines = CardLines(estimate, peak),
                      .top = TopOf(estimate, peak)};
  drawn.drawing = DrawLayers(drawn.layers, drawn.top) + DrawReserved(estimate, drawn.top);
  return drawn;
}

std::string CurveLabel(const Estimate& estimate) {
  const Curve& curve = estimate.curve->curve;
  const CurvePoint& peak = curve.points[curve.peak];
  const std::string& node = estimate.curve->nodes[curve.peak];
  std::string text = fmt::format("Memory over step {}, by kind. The most, {} allocated, in {}{}.",
                                 curve.step, FormatBytes(peak.allocated_bytes),
                                 ToString(peak.phase), node.empty() ? "" : ", at " + node);
  if (estimate.targets.size() > 1) {
    text += fmt::format(" As on {}, the first of the cards.", estimate.targets[0].target.name);
  }
  return text;
}

}  // namespace onnxfit
