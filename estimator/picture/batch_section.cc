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

// Runs at several batches, without those that have no estimate.
std::vector<const Estimate*> RunsOf(const SweepAnswer& answer) {
  std::vector<const Estimate*> runs;
  for (const SweepRow& row : answer.rows) {
    if (row.estimate) runs.push_back(&*row.estimate);
  }
  return runs;
}

double ShareOfBatch(const BatchPoint& point, const std::vector<BatchPoint>& points) {
  return static_cast<double>(point.batch) / static_cast<double>(points.back().batch);
}

std::string PointMarks(const std::vector<BatchPoint>& points, int64_t top, int64_t asked) {
  std::string text;
  for (const BatchPoint& point : points) {
    const double up = 100.0 * static_cast<double>(point.bytes) / static_cast<double>(top);
    const std::string_view name = point.batch == asked ? "point asked"
                                  : point.fails        ? "point fails"
                                                       : "point";
    text += Element("b",
                    {{"class", name},
                     {"style", fmt::format("left:{:.2f}%;bottom:{:.2f}%",
                                           100 * ShareOfBatch(point, points), up)}},
                    "");
  }
  return text;
}

std::string BatchLine(const std::vector<BatchPoint>& points, int64_t top) {
  std::string path;
  for (const BatchPoint& point : points) {
    if (point.fails) continue;
    path += fmt::format("{}{} {}", path.empty() ? "M" : "L",
                        point.batch * kColumns / points.back().batch,
                        kPlotHeight - HeightOf(point.bytes, top));
  }
  return Element("path", {{"class", "reserved"}, {"d", path}}, "");
}

std::string VerdictCell(const Judgement& judgement) {
  return Element(
      "td", {{"class", fmt::format("verdict {}", ToString(judgement.verdict))}},
      fmt::format("{} {:.0f}%", VerdictWord(judgement.verdict), 100 * judgement.share()));
}

std::string BatchTable(const std::vector<const Estimate*>& runs) {
  std::string header = Element("th", {{"scope", "col"}}, "batch") +
                       Element("th", {{"scope", "col"}}, "allocated") +
                       Element("th", {{"scope", "col"}}, "reserved") +
                       Element("th", {{"scope", "col"}}, "on the device");
  for (const JudgedTarget& judged : runs[0]->targets) {
    header += Element("th", {{"scope", "col"}}, HtmlText(judged.target.name));
  }
  std::string body;
  for (const Estimate* run : runs) {
    const Estimate& estimate = *run;
    std::string cells = Element("th", {{"scope", "row"}}, std::to_string(estimate.batch));
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

Plot BatchPlot(const std::vector<BatchPoint>& points, int64_t asked, int64_t top,
               const std::vector<CardLine>& lines) {
  std::vector<PlotName> names;
  for (const BatchPoint& point : points) {
    names.push_back({ShareOfBatch(point, points), std::to_string(point.batch)});
  }
  Plot plot = {.id = "batches",
               .label = fmt::format("Memory on the device against the batch size, from {} at batch "
                                    "{} to {} at batch {}.",
                                    FormatBytes(points[0].bytes), points[0].batch,
                                    FormatBytes(points.back().bytes), points.back().batch),
               .top = top,
               .columns = kColumns,
               .lines = lines};
  plot.drawing = BatchLine(points, plot.top);
  plot.over = PointMarks(points, plot.top, asked);
  plot.below = NamesBelow(names);
  return plot;
}

std::string BatchSection(const PageContent& content) {
  if (!content.batches) return "";
  const std::vector<const Estimate*> runs = RunsOf(*content.batches);
  if (runs.size() < 2) return "";
  std::vector<BatchPoint> points;
  int64_t most = 0;
  for (const Estimate* run : runs) {
    points.push_back({run->batch, run->device_bytes});
    most = std::max(most, run->device_bytes);
  }
  const Plot plot = BatchPlot(points, content.estimate.batch, ByteTicks(most).back(),
                              CardLines(content.estimate, most));
  return Section("batch", "By batch size",
                 PlotFigure(plot, HtmlText(plot.label)) + BatchTable(runs));
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
