#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimator/base/bytes.h"
#include "estimator/picture/html.h"
#include "estimator/picture/layers.h"
#include "estimator/picture/page_parts.h"

namespace onnxfit {
namespace {

// Sizes of memory that cards are sold with (estimator/base/cards.cc).
constexpr int64_t kCommonSizes[] = {4, 6, 8, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180, 288};

std::string FromTop(int64_t bytes, int64_t top) {
  const double share = static_cast<double>(bytes) / static_cast<double>(top);
  return fmt::format("top:{:.2f}%", 100 * (1 - share));
}

std::string Ticks(int64_t top) {
  std::string text;
  for (const int64_t tick : ByteTicks(top)) {
    if (tick > top) continue;
    text += Element("li", {{"style", FromTop(tick, top)}}, TickText(tick));
  }
  return Element("ul", {{"class", "ticks"}, {"aria-hidden", "true"}}, text);
}

std::string Lines(const Plot& plot) {
  std::string text;
  for (const CardLine& line : plot.lines) {
    if (line.bytes > plot.top) continue;
    const bool is_low = line.bytes < plot.top / 12;  // its name would lie on the axis
    text += Element(
        "div", {{"class", is_low ? "line low" : "line"}, {"style", FromTop(line.bytes, plot.top)}},
        Element("span", {}, HtmlText(line.name)));
  }
  return text;
}

// Of the plot of a phone's page, some 250 pixels: a digit is 7.
constexpr double kDigitShare = 0.03;

}  // namespace

std::string PlotMark(size_t point, size_t points, std::string_view name) {
  const double place = 100.0 * (static_cast<double>(point) + 0.5) / static_cast<double>(points);
  return Element("div",
                 {{"class", place > 50 ? "mark right" : "mark"},
                  {"style", fmt::format("left:{:.2f}%", place)}},
                 Element("span", {}, HtmlText(name)));
}

// At the right edge a name ends at its point.
std::string NamesBelow(const std::vector<PlotName>& names) {
  std::string text;
  double last = -1;
  for (const PlotName& place : names) {
    const double room = std::max(0.1, kDigitShare * static_cast<double>(place.name.size()));
    if (last >= 0 && place.left - last < room) continue;
    last = place.left;
    text += Element("li",
                    {{"class", place.left + room / 2 > 1 ? "end" : "batch"},
                     {"style", fmt::format("left:{:.2f}%", 100 * place.left)}},
                    place.name);
  }
  return Element("ol", {{"class", "batches"}, {"aria-hidden", "true"}}, text);
}

std::vector<CardLine> CardLines(const Estimate& estimate, int64_t most) {
  std::vector<CardLine> lines;
  for (const JudgedTarget& judged : estimate.targets) {
    lines.push_back({judged.target.name, judged.judgement.usable_bytes});
  }
  if (!lines.empty()) return lines;
  for (const int64_t size : kCommonSizes) {
    const int64_t bytes = size * kGiB;
    if (bytes >= most / 4 && bytes - bytes / 6 <= most) {
      lines.push_back({fmt::format("{} GiB", size), bytes});
    }
  }
  return lines;
}

int64_t HeightOf(int64_t bytes, int64_t top) {
  const double share = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(top, 1));
  return std::llround(share * static_cast<double>(kPlotHeight));
}

std::string PlotFigure(const Plot& plot, std::string_view caption) {
  const std::string box = fmt::format("0 0 {} {}", plot.columns, kPlotHeight);
  const std::string drawing = Element("svg",
                                      {{"viewBox", box},
                                       {"preserveAspectRatio", "none"},
                                       {"aria-hidden", "true"},
                                       {"focusable", "false"}},
                                      plot.drawing);
  const std::string field =
      Element("div", {{"class", "field"}, {"role", "img"}, {"aria-label", plot.label}},
              drawing + Lines(plot) + plot.over);
  const std::string_view of_curve = plot.data.empty() ? "plot" : "plot curve";
  return Element("figure", {{"id", plot.id}, {"class", of_curve}, {"data-json", plot.data}},
                 Element("figcaption", {}, caption) + "\n" +
                     Element("div", {{"class", "box"}}, Ticks(plot.top) + field) + plot.below) +
         "\n";
}

}  // namespace onnxfit
