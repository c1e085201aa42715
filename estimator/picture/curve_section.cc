#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/picture/curve_layers.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"

namespace onnxfit {
namespace {

constexpr double kNarrow = 10;  // of 100: a phase whose name stands before it

std::string PhaseNames(const Curve& curve) {
  std::string text;
  const std::vector<size_t> starts = curve.PhaseStarts();
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t end = i + 1 < starts.size() ? starts[i + 1] : curve.points.size();
    const double width =
        100.0 * static_cast<double>(end - starts[i]) / static_cast<double>(curve.points.size());
    text += Element("li",
                    {{"class", width < kNarrow ? "narrow" : "phase"},
                     {"style", fmt::format("width:{:.2f}%", width)}},
                    Element("span", {}, ToString(curve.points[starts[i]].phase)));
  }
  return Element("ol", {{"class", "phases"}}, text);
}

std::string PeakMark(const Estimate& estimate) {
  const Curve& curve = estimate.curve->curve;
  return PlotMark(
      curve.peak, curve.points.size(),
      fmt::format("peak {} + context", FormatBytes(curve.points[curve.peak].allocated_bytes)));
}

std::string Legend(const std::vector<Layer>& layers, bool has_before) {
  std::string text;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    text += Element("li", {},
                    Element("i", {{"class", KindClass(layer->kind)}}, "") + KindWords(layer->kind));
  }
  text += Element("li", {}, Element("i", {{"class", "reserved"}}, "") + "reserved + context");
  if (has_before) {
    text +=
        Element("li", {}, Element("i", {{"class", "before"}}, "") + "before: allocated + context");
  }
  return Element("ul", {{"class", "legend"}}, text);
}

}  // namespace

std::string CurveSection(const Estimate& estimate, const Estimate* before) {
  const Curve& curve = estimate.curve->curve;
  if (curve.points.empty()) return "";
  if (before != nullptr && before->curve->curve.points.empty()) before = nullptr;
  const DrawnCurve drawn = DrawCurve(estimate, before);
  Plot plot = {.id = "curve",
               .data = "curve",
               .label = CurveLabel(estimate),
               .top = drawn.top,
               .columns = curve.points.size()};
  plot.drawing = drawn.drawing;
  plot.lines = drawn.lines;
  plot.over = PeakMark(estimate);
  plot.below = PhaseNames(curve) + Legend(drawn.layers, before != nullptr) +
               Element("p", {{"class", "readout"}, {"aria-live", "polite"}, {"hidden", ""}}, "");
  return Section("step", "Memory over one step", PlotFigure(plot, HtmlText(CurveLabel(estimate))));
}

}  // namespace onnxfit
