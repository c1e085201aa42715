#include "estimator/picture/curve_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"

namespace onnxfit {
int64_t TopOf(const std::vector<CardLine>& lines, int64_t peak) {
  int64_t top = peak;
  for (const CardLine& line : lines) {
    if (line.bytes / 4 <= peak) top = std::max(top, line.bytes);
  }
  return ByteTicks(top + std::min(top / 50, std::numeric_limits<int64_t>::max() - top)).back();
}

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

std::string DrawLine(std::string_view name, std::vector<int64_t> bytes, int64_t top) {
  for (int64_t& height : bytes) height = HeightOf(height, top);
  return Element("path", {{"class", name}, {"d", LinePath(bytes, kPlotHeight)}}, "");
}

namespace {

// Where each phase begins, and the end; the whole as one where the other has other phases.
std::vector<size_t> Borders(const Curve& curve, const Curve& other) {
  const auto phases = [](const Curve& of) {
    std::vector<Phase> names;
    for (const size_t start : of.PhaseStarts()) names.push_back(of.points[start].phase);
    return names;
  };
  std::vector<size_t> borders = {0};
  if (phases(curve) == phases(other)) borders = curve.PhaseStarts();
  borders.push_back(curve.points.size());
  return borders;
}

}  // namespace

std::vector<int64_t> StretchTo(const std::vector<int64_t>& bytes, const Curve& from,
                               const Curve& to) {
  const std::vector<size_t> old_borders = Borders(from, to);
  const std::vector<size_t> new_borders = Borders(to, from);
  std::vector<int64_t> stretched;
  for (size_t phase = 0; phase + 1 < new_borders.size(); ++phase) {
    const size_t points = new_borders[phase + 1] - new_borders[phase];
    const size_t old_points = old_borders[phase + 1] - old_borders[phase];
    for (size_t i = 0; i < points; ++i) {
      const size_t first = old_borders[phase] + i * old_points / points;
      const size_t behind = old_borders[phase] + (i + 1) * old_points / points;
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::max(behind, first + 1) - first);
      stretched.push_back(*std::max_element(begin, begin + count));
    }
  }
  return stretched;
}

DrawnCurve DrawCurve(const Estimate& estimate, const Estimate* before) {
  int64_t peak = std::ranges::max(ReservedOnDevice(estimate));
  if (before != nullptr) peak = std::max(peak, std::ranges::max(AllocatedOnDevice(*before)));
  DrawnCurve drawn = {.layers = LayersOf(estimate),
                      .lines = CardLines(estimate, peak),
                      .top = TopOf(CardLines(estimate, peak), peak)};
  drawn.drawing = DrawLayers(drawn.layers, drawn.top) +
                  DrawLine("reserved", ReservedOnDevice(estimate), drawn.top);
  if (before != nullptr) {
    const std::vector<int64_t> bytes =
        StretchTo(AllocatedOnDevice(*before), before->curve->curve, estimate.curve->curve);
    drawn.drawing += DrawLine("before", bytes, drawn.top);
  }
  return drawn;
}

std::string CurveLabel(const Estimate& estimate) {
  const Curve& curve = estimate.curve->curve;
  const CurvePoint& peak = curve.points[curve.peak];
  const std::string& node = estimate.curve->nodes[curve.peak];
  std::string text = fmt::format("Memory over step {}, by kind. The most, {} allocated, in {}{}.",
                                 curve.step, FormatBytes(peak.allocated_bytes),
                                 ToString(peak.phase), node.empty() ? "" : ", at " + node);
  std::vector<std::string_view> failing;
  for (const JudgedTarget& judged : estimate.targets) {
    if (judged.judgement.fails_at) failing.push_back(judged.target.name);
  }
  if (!failing.empty()) {
    text += fmt::format(" Drawn as with room for all of it: on {} the run fails before.",
                        fmt::join(failing, " and "));
  }
  if (estimate.targets.size() > 1) {
    text += fmt::format(" As on {}, the first of the cards.", estimate.targets[0].target.name);
  }
  return text;
}

}  // namespace onnxfit
