#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/layers.h"
#include "estimator/picture/page_parts.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr int64_t kColumns = 1000;  // of the drawing

struct BatchPoint {
  int64_t batch = 0;
  const Estimate* estimate = nullptr;
};

std::vector<BatchPoint> PointsOf(const SweepAnswer& answer) {
  std::vector<BatchPoint> points;
  for (const SweepRow& row : answer.rows) {
    if (row.estimate) points.push_back({row.estimate->batch, &*row.estimate});
  }
  return points;
}

std::string PointMarks(const std::vector<BatchPoint>& points, int64_t top, int64_t asked) {
  std::string text;
  for (const BatchPoint& point : points) {
    const double left =
        100.0 * static_cast<double>(point.batch) / static_cast<double>(points.back().batch);
    const double up =
        100.0 * static_cast<double>(point.estimate->device_bytes) / static_cast<double>(top);
    text += Element("b",
                    {{"class", point.batch == asked ? "point asked" : "point"},
                     {"style", fmt::format("left:{:.2f}%;bottom:{:.2f}%", left, up)}},
                    "");
  }
  return text;
}

std::string BatchLine(const std::vector<BatchPoint>& points, int64_t top) {
  std::string path;
  for (const BatchPoint& point : points) {
    path += fmt::format("{}{} {}", path.empty() ? "M" : "L",
                        point.batch * kColumns / points.back().batch,
                        kPlotHeight - HeightOf(point.estimate->device_bytes, top));
  }
  return Element("path", {{"class", "reserved"}, {"d", path}}, "");
}

// Of the plot of a phone's page, some 250 pixels: a digit is 7.
constexpr double kDigitShare = 0.03;

// Those far enough from the one before to be read.  At the right edge a number ends at its point.
std::string BatchNames(const std::vector<BatchPoint>& points) {
  std::string text;
  double last = -1;
  for (const BatchPoint& point : points) {
    const std::string name = std::to_string(point.batch);
    const double left = static_cast<double>(point.batch) / static_cast<double>(points.back().batch);
    const double room = std::max(0.1, kDigitShare * static_cast<double>(name.size()));
    if (last >= 0 && left - last < room) continue;
    last = left;
    text += Element("li",
                    {{"class", left + room / 2 > 1 ? "end" : "batch"},
                     {"style", fmt::format("left:{:.2f}%", 100 * left)}},
                    name);
  }
  return Element("ol", {{"class", "batches"}, {"aria-hidden", "true"}}, text);
}

std::string VerdictCell(const Judgement& judgement) {
  return Element(
      "td", {{"class", fmt::format("verdict {}", ToString(judgement.verdict))}},
      fmt::format("{} {:.0f}%", VerdictWord(judgement.verdict), 100 * judgement.share()));
}

std::string BatchTable(const std::vector<BatchPoint>& points) {
  std::string header = Element("th", {{"scope", "col"}}, "batch") +
                       Element("th", {{"scope", "col"}}, "allocated") +
                       Element("th", {{"scope", "col"}}, "reserved") +
                       Element("th", {{"scope", "col"}}, "on the device");
  for (const JudgedTarget& judged : points[0].estimate->targets) {
    header += Element("th", {{"scope", "col"}}, HtmlText(judged.target.name));
  }
  std::string body;
  for (const BatchPoint& point : points) {
    const Estimate& estimate = *point.estimate;
    std::string cells = Element("th", {{"scope", "row"}}, std::to_string(point.batch));
    for (const int64_t bytes :
         {estimate.peak.allocated_bytes, estimate.peak.reserved_bytes, estimate.device_bytes}) {
      cells += Element("td", {{"class", "number"}}, FormatBytes(bytes));
    }
    for (const JudgedTarget& judged : estimate.targets) cells += VerdictCell(judged.judgement);
    body += Element("tr", {}, cells) + "\n";
  }
  return Element(
      "div", {{"class", "wide"}},
      Element("table", {},
              Element("thead", {}, Element("tr", {}, header)) + Element("tbody", {}, body)));
}

}  // namespace

std::string BatchSection(const PageContent& content) {
  if (!content.batches) return "";
  const std::vector<BatchPoint> points = PointsOf(*content.batches);
  if (points.size() < 2) return "";
  int64_t most = 0;
  for (const BatchPoint& point : points) most = std::max(most, point.estimate->device_bytes);
  Plot plot = {
      .id = "batches",
      .label = fmt::format("Memory on the device against the batch size, from {} at batch "
                           "{} to {} at batch {}.",
                           FormatBytes(points[0].estimate->device_bytes), points[0].batch,
                           FormatBytes(points.back().estimate->device_bytes), points.back().batch),
      .top = ByteTicks(most).back(),
      .columns = kColumns};
  plot.lines = CardLines(content.estimate, most);
  plot.drawing = BatchLine(points, plot.top);
  plot.over = PointMarks(points, plot.top, content.estimate.batch);
  plot.below = BatchNames(points);
  return Section("batch", "By batch size",
                 PlotFigure(plot, HtmlText(plot.label)) + BatchTable(points));
}

std::vector<int64_t> BatchesAround(int64_t batch) {
  std::vector<int64_t> batches = {1,         batch / 4, batch / 2, batch, batch + batch / 2,
                                  batch * 2, batch * 3, batch * 4};
  std::erase_if(batches, [](int64_t b) { return b < 1; });
  std::ranges::sort(batches);
  batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
  return batches;
}

}  // namespace onnxfit
