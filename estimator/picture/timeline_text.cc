#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/terminal.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr size_t kLines = 10;
constexpr size_t kLabelColumns = 10;  // "1023.9 MiB"
constexpr size_t kWidest = kTerminalPoints;
static_assert(kWidest + kLabelColumns + 4 == kReportColumns);

// The letters of a column: below what stays from step to step, above all else; of the topmost line
// of what is above, eighths.
struct Blocks {
  std::string_view stays;
  std::array<std::string_view, 9> eighths;
  std::string_view axis;
  std::string_view corner;
  std::string_view floor;
  std::string_view peak;
};
constexpr Blocks kUnicodeBlocks = {
    "░", {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "│", "└", "─", "▲"};
constexpr Blocks kAsciiBlocks = {".", {" ", " ", " ", " ", "#", "#", "#", "#", "#"}, "|", "+", "-",
                                 "^"};

class TimelineDrawing {
 public:
  TimelineDrawing(const TimelinePlot& plot, const TextOptions& options)
      : plot_(plot),
        blocks_(options.ascii ? kAsciiBlocks : kUnicodeBlocks),
        options_(options),
        width_(std::max(std::min(kWidest, plot.bytes.size()),
                        plot.bytes.size() < kWidest / 2 ? kWidest : size_t{1})),
        top_(std::max<int64_t>(plot.bytes[plot.peak], 1)) {}

  std::string Text() const {
    std::string text = fmt::format("\n{}\n", plot_.title);
    for (size_t line = kLines; line > 0; --line) text += Line(line - 1);
    text += fmt::format("{} {}", PadLeft("0 B", kLabelColumns), blocks_.corner);
    for (size_t column = 0; column < width_; ++column) text += blocks_.floor;
    return text + '\n' + MarkLine() + PeakLine() + Legend();
  }

 private:
  size_t PointAt(size_t column) const { return column * plot_.bytes.size() / width_; }

  // The first column of a point.
  size_t ColumnOf(size_t point) const {
    return (point * width_ + plot_.bytes.size() - 1) / plot_.bytes.size();
  }

  double Height(int64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(top_) * kLines;
  }

  std::string_view Letter(size_t point, size_t line) const {
    const double stays = Height(plot_.staying_bytes[point]);
    if (std::round(stays) > static_cast<double>(line)) return blocks_.stays;
    const double above = Height(plot_.bytes[point]) - static_cast<double>(line);
    return blocks_.eighths[static_cast<size_t>(std::lround(std::clamp(above, 0.0, 1.0) * 8))];
  }

  std::string Line(size_t line) const {
    const bool is_labelled = line + 1 == kLines || line + 1 == kLines / 2;
    const int64_t bytes = top_ / static_cast<int64_t>(kLines) * static_cast<int64_t>(line + 1);
    const std::string label = is_labelled ? FormatBytes(line + 1 == kLines ? top_ : bytes) : "";
    std::string text = fmt::format("{} {}", PadLeft(label, kLabelColumns), blocks_.axis);
    for (size_t column = 0; column < width_; ++column) text += Letter(PointAt(column), line);
    return text + '\n';
  }

  // Names where they have room.
  std::string MarkLine() const {
    std::string line;
    const std::vector<TimelineMark>& marks = plot_.marks;
    for (size_t i = 0; i < marks.size(); ++i) {
      const size_t from = ColumnOf(marks[i].point);
      const size_t to = i + 1 < marks.size() ? ColumnOf(marks[i + 1].point) : kWidest;
      const std::string& name = marks[i].name;
      const bool has_room = to - from > name.size();
      const size_t lead = has_room ? 0 : name.size();  // the bar behind it
      const size_t begin = from - std::min(lead, from);
      const bool is_taken = line.size() > begin || begin + name.size() + 1 > kWidest;
      if (is_taken) continue;
      line = PadRight(line, begin) + (has_room ? "|" + name : name + "|");
    }
    return line.empty() ? line : std::string(kLabelColumns + 2, ' ') + line + '\n';
  }

  std::string PeakLine() const {
    std::string text = fmt::format("{} {}", blocks_.peak, FormatBytes(top_));
    if (!plot_.peak_at.empty()) text += " at " + Clean(plot_.peak_at, options_.ascii);
    const size_t room = kReportColumns - kLabelColumns - 2;
    text = CutMiddle(text, room, GlyphsOf(options_).ellipsis);
    const size_t column = std::min(ColumnOf(plot_.peak), room - Columns(text));
    return std::string(kLabelColumns + 2 + column, ' ') + text + '\n';
  }

  std::string Legend() const {
    return fmt::format("  {} {}   {} all else\n", blocks_.stays, plot_.staying, blocks_.eighths[8]);
  }

  const TimelinePlot& plot_;
  const Blocks& blocks_;
  const TextOptions& options_;
  size_t width_;
  int64_t top_;
};

constexpr Kind kStaying[] = {Kind::kParameter, Kind::kBuffer, Kind::kGradient,
                             Kind::kOptimizerState};

int64_t StayingBytes(const CurvePoint& point) {
  int64_t bytes = 0;
  for (const Kind kind : kStaying) bytes += point.bytes[static_cast<size_t>(kind)];
  return bytes;
}

TimelinePlot PlotOf(const Estimate& estimate) {
  const Curve& curve = estimate.curve->curve;
  const bool fails = std::ranges::any_of(estimate.targets, [](const JudgedTarget& judged) {
    return judged.judgement.fails_at.has_value();
  });
  TimelinePlot plot = {.title = fmt::format("Allocated over step {}{}", curve.step,
                                            fails ? ", on a card with room for all of it" : ""),
                       .staying = "parameters, buffers, gradients, optimizer state",
                       .peak = curve.peak,
                       .peak_at = estimate.curve->nodes[curve.peak]};
  for (const CurvePoint& point : curve.points) {
    plot.bytes.push_back(point.allocated_bytes);
    plot.staying_bytes.push_back(StayingBytes(point));
  }
  for (const size_t start : curve.PhaseStarts()) {
    plot.marks.push_back({start, std::string(ToString(curve.points[start].phase))});
  }
  return plot;
}

}  // namespace

std::string TimelineText(const TimelinePlot& plot, const TextOptions& options) {
  return plot.bytes.empty() ? "" : TrimLines(TimelineDrawing(plot, options).Text());
}

std::string TimelineText(const Estimate& estimate, const TextOptions& options) {
  if (!estimate.curve || estimate.curve->curve.points.empty()) return "";
  return TimelineText(PlotOf(estimate), options);
}

}  // namespace onnxfit
