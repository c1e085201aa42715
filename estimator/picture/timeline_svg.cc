#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/picture/curve_layers.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/run_files.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

// The image and the field of the curve in it, in pixels.
constexpr int kWidth = 960;
constexpr int kHeight = 500;
constexpr int kLeft = 80;
constexpr int kTop = 76;
constexpr int kFieldWidth = kWidth - kLeft - 24;
constexpr int kFieldHeight = 320;
constexpr int kLegendTop = kTop + kFieldHeight + 52;

std::string Number(double value) { return fmt::format("{:.1f}", value); }

std::string Words(double x, double y, std::string_view anchor, std::string_view text,
                  std::string_view words_class = "word") {
  return Element(
             "text",
             {{"x", Number(x)}, {"y", Number(y)}, {"text-anchor", anchor}, {"class", words_class}},
             HtmlText(text)) +
         "\n";
}

double Up(int64_t bytes, int64_t top) {
  return kTop + kFieldHeight - kFieldHeight * static_cast<double>(bytes) / static_cast<double>(top);
}

std::string Rule(double y, std::string_view rule_class) {
  return Element("line",
                 {{"x1", Number(kLeft)},
                  {"x2", Number(kLeft + kFieldWidth)},
                  {"y1", Number(y)},
                  {"y2", Number(y)},
                  {"class", rule_class}},
                 "") +
         "\n";
}

class SvgDrawing {
 public:
  explicit SvgDrawing(const Estimate& estimate)
      : estimate_(estimate), curve_(estimate.curve->curve), drawn_(DrawCurve(estimate)) {}

  std::string Draw() const {
    const std::string title = CurveLabel(estimate_);
    return Element(
               "svg",
               {{"xmlns", "http://www.w3.org/2000/svg"},
                {"viewBox", fmt::format("0 0 {} {}", kWidth, kHeight)},
                {"role", "img"},
                {"aria-label", title}},
               "\n" + Element("title", {}, HtmlText(title)) + "\n" +
                   Element("style", {}, SvgStyle()) + "\n" +
                   Element("rect", {{"class", "page"}, {"width", "100%"}, {"height", "100%"}}, "") +
                   "\n" + Heading() + Ticks() + Field() + Cards() + Phases() + Peak() + Legend()) +
           "\n";
  }

 private:
  std::string Heading() const {
    constexpr size_t kMostLetters = 100;  // that are as wide as the field
    return Words(kLeft, 24, "start", CutMiddle(estimate_.model.path, kMostLetters, "…"), "title") +
           Words(kLeft, 44, "start", CutMiddle(CurveLabel(estimate_), kMostLetters, "…"));
  }

  std::string Ticks() const {
    std::string text;
    for (const int64_t tick : ByteTicks(drawn_.top)) {
      text += Rule(Up(tick, drawn_.top), "tick") +
              Words(kLeft - 8, Up(tick, drawn_.top) + 4, "end", TickText(tick));
    }
    return text;
  }

  // The drawing's own box, stretched.
  std::string Field() const {
    return Element("svg",
                   {{"x", Number(kLeft)},
                    {"y", Number(kTop)},
                    {"width", Number(kFieldWidth)},
                    {"height", Number(kFieldHeight)},
                    {"viewBox", fmt::format("0 0 {} {}", curve_.points.size(), kPlotHeight)},
                    {"preserveAspectRatio", "none"}},
                   drawn_.drawing) +
           "\n";
  }

  std::string Cards() const {
    std::string text;
    for (const CardLine& line : drawn_.lines) {
      if (line.bytes > drawn_.top) continue;
      const double y = Up(line.bytes, drawn_.top);
      text += Rule(y, "card") + Words(kLeft + 6, y + 14, "start", line.name);
    }
    return text;
  }

  double Across(size_t point) const {
    return kLeft +
           kFieldWidth * static_cast<double>(point) / static_cast<double>(curve_.points.size());
  }

  std::string Phases() const {
    std::string text;
    const std::vector<size_t> starts = curve_.PhaseStarts();
    for (size_t i = 0; i < starts.size(); ++i) {
      const bool is_last = i > 0 && i + 1 == starts.size();
      const bool is_narrow =
          is_last && (curve_.points.size() - starts[i]) * 10 < curve_.points.size();
      const double x = is_narrow ? kLeft + kFieldWidth : Across(starts[i]) + 2;
      text += Words(x, kTop + kFieldHeight + 18, is_narrow ? "end" : "start",
                    ToString(curve_.points[starts[i]].phase));
    }
    return text;
  }

  std::string Peak() const {
    const double x = Across(curve_.peak);
    const bool is_right = x > kLeft + kFieldWidth / 2.0;
    return Element("line",
                   {{"x1", Number(x)},
                    {"x2", Number(x)},
                    {"y1", Number(kTop)},
                    {"y2", Number(kTop + kFieldHeight)},
                    {"class", "peak"}},
                   "") +
           "\n" +
           Words(is_right ? x - 6 : x + 6, kTop - 8, is_right ? "end" : "start",
                 "peak " + FormatBytes(curve_.points[curve_.peak].allocated_bytes), "title");
  }

  std::string Legend() const {
    constexpr int kColumn = 170;
    constexpr int kColumns = 5;
    std::string text;
    int place = 0;
    for (auto layer = drawn_.layers.rbegin(); layer != drawn_.layers.rend(); ++layer, ++place) {
      const double x = kLeft + kColumn * (place % kColumns);
      const int row = place / kColumns;
      const double y = kLegendTop + 20 * row;
      text += Element("rect",
                      {{"class", KindClass(layer->kind)},
                       {"x", Number(x)},
                       {"y", Number(y - 10)},
                       {"width", "12"},
                       {"height", "12"}},
                      "") +
              Words(x + 18, y, "start", WithSpaces(layer->kind));
    }
    return text;
  }

  const Estimate& estimate_;
  const Curve& curve_;
  const DrawnCurve drawn_;
};

}  // namespace

std::string ToSvg(const Estimate& estimate) { return SvgDrawing(estimate).Draw(); }

}  // namespace onnxfit
