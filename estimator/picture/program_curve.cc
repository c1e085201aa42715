// What a program had in tensors over its run, by line.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/picture/curve_layers.h"
#include "estimator/picture/html.h"
#include "estimator/picture/page_parts.h"
#include "estimator/picture/program_page_parts.h"
#include "estimator/report/program_run_parts.h"

namespace onnxfit {
namespace {

// The colours of lines, those with the most bytes first.
constexpr std::string_view kLineKinds[] = {"line0", "line1", "line2", "line3",
                                           "line4", "line5", "line6"};

std::string_view KindOf(const RunCurve& drawn, size_t layer) {
  const bool is_line = drawn.curve.layers[layer].what != LineLayer::What::kOthers;
  return is_line ? kLineKinds[layer % std::size(kLineKinds)] : "others";
}

// What stays lies below what comes and goes: by the least that each has in the middle of the run,
// when all is made and nothing is given back for good.
std::vector<size_t> FromBottom(const RecordedCurve& curve) {
  const auto least = [&](size_t layer) {
    const std::vector<int64_t>& bytes = curve.layers[layer].bytes;
    const auto third = std::ssize(bytes) / 3;
    return *std::min_element(bytes.begin() + third, bytes.end() - third);
  };
  std::vector<size_t> order(curve.layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return least(a) > least(b); });
  std::erase_if(order, [&](size_t layer) {
    return std::ranges::all_of(curve.layers[layer].bytes, [](int64_t bytes) { return bytes == 0; });
  });
  return order;
}

// --- Beside tensors -----------------------------------------------------------------------------

// What a card has beside what PyTorch reserved, and its line.  Of several processes or cards it is
// not known which is where, so that a context has to do, and the line is that of the smallest.
struct CardSpace {
  int64_t beside = 0;
  std::vector<CardLine> lines = {};
};

CardSpace SpaceOf(const ProgramRun& run, const ProgramProcess& process) {
  const auto smaller = [](const JudgedTarget& judged) { return judged.judgement.usable_bytes; };
  const JudgedTarget& card = *std::ranges::min_element(run.cards, {}, smaller);
  CardSpace space = {.beside = card.target.device.context.bytes};
  const bool is_one = run.cards.size() == 1 && run.processes.size() == 1;
  if (is_one && process.peaks.size() == 1) {
    space.beside = std::max<int64_t>(card.judgement.used_bytes - process.peaks[0].reserved_bytes,
                                     space.beside);
  }
  const bool is_shared = run.processes.size() > run.cards.size();
  if (!is_shared && !run.is_assumed)
    space.lines = {{card.target.name, card.judgement.usable_bytes}};
  return space;
}

// --- The figure ---------------------------------------------------------------------------------

std::vector<Layer> LayersOf(const RunCurve& drawn, const std::vector<size_t>& order,
                            int64_t beside) {
  const size_t points = drawn.curve.requested_bytes.size();
  std::vector<Layer> layers = {{"context", std::vector<int64_t>(points, beside)}};
  for (const size_t layer : order) {
    layers.push_back({KindOf(drawn, layer), drawn.curve.layers[layer].bytes});
  }
  return layers;
}

std::string LegendItem(std::string_view name, std::string_view words, std::string_view source) {
  const std::string code = source.empty() ? "" : " " + HtmlCode(source);
  return Element("li", {}, Element("i", {{"class", name}}, "") + HtmlText(words) + code);
}

// From the top down, as it is drawn.
std::string LegendOf(const RunCurve& drawn, const std::vector<size_t>& order) {
  std::string text;
  for (auto layer = order.rbegin(); layer != order.rend(); ++layer) {
    text += LegendItem(KindClass(KindOf(drawn, *layer)), LayerName(drawn, *layer),
                       drawn.lines[*layer].source);
  }
  text += LegendItem("k-context", "beside PyTorch's allocator", "");
  text += LegendItem("reserved", "reserved, and what is beside", "");
  return Element("ul", {{"class", "legend"}}, text);
}

// Of a history that is cut nobody knows the first turn's number.
std::string TurnNames(const RecordedCurve& curve) {
  if (curve.is_cut) return "";
  std::vector<PlotName> names;
  for (size_t turn = 0; turn < curve.turns.size(); ++turn) {
    const double left =
        static_cast<double>(curve.turns[turn]) / static_cast<double>(curve.requested_bytes.size());
    names.push_back({left, turn == 0 ? "turn 1" : std::to_string(turn + 1)});
  }
  return names.empty() ? "" : NamesBelow(names);
}

std::string MarkOf(const ProgramProcess& process) {
  const RecordedCurve& curve = process.curve->curve;
  const size_t points = curve.requested_bytes.size();
  if (process.is_oom && curve.full) return PlotMark(*curve.full, points, "out of memory");
  const int64_t most = curve.requested_bytes[curve.peak];
  return PlotMark(curve.peak, points, fmt::format("most {}", FormatBytes(most)));
}

std::string CaptionOf(const ProgramProcess& process) {
  const RunCurve& drawn = *process.curve;
  const size_t peak = drawn.curve.peak;
  std::string text = fmt::format(
      "In tensors over {}{} allocations and frees, by the line that asked. The most, {}",
      drawn.curve.is_cut ? "the last " : "", drawn.curve.events,
      FormatBytes(drawn.curve.requested_bytes[peak]));
  if (!drawn.asked_by[peak].empty()) text += ", at " + drawn.asked_by[peak];
  if (process.peaks.size() > 1) text += fmt::format(", on cuda:{}", drawn.device);
  return text + ".";
}

}  // namespace

std::string LayerClass(const RunCurve& curve, size_t layer) {
  return KindClass(KindOf(curve, layer));
}

std::string LayerClass(const RunCurve& curve, const ProgramPlace& at) {
  for (size_t i = 0; i < curve.lines.size(); ++i) {
    if (curve.lines[i] == at && curve.curve.layers[i].what != LineLayer::What::kOthers) {
      return LayerClass(curve, i);
    }
  }
  return "k-others";
}

std::string ProgramCurve(const ShownRun& shown, size_t place) {
  const ProgramProcess& process = shown.run.processes[place];
  if (!process.curve) return "";
  const RecordedCurve& curve = process.curve->curve;
  const CardSpace space = SpaceOf(shown.run, process);
  const std::vector<size_t> order = FromBottom(curve);
  std::vector<int64_t> reserved = curve.reserved_bytes;
  for (int64_t& bytes : reserved) bytes += space.beside;
  Plot plot = {.id = fmt::format("curve-{}", place + 1),
               .data = fmt::format("{}processes.{}.curve", shown.data, place),
               .label = CaptionOf(process),
               .top = TopOf(space.lines, std::ranges::max(reserved)),
               .columns = curve.requested_bytes.size(),
               .lines = space.lines};
  plot.drawing = DrawLayers(LayersOf(*process.curve, order, space.beside), plot.top) +
                 DrawLine("reserved", reserved, plot.top);
  plot.over = MarkOf(process);
  plot.below = TurnNames(curve) + LegendOf(*process.curve, order) +
               Element("p", {{"class", "readout"}, {"aria-live", "polite"}, {"hidden", ""}}, "");
  return PlotFigure(plot, HtmlText(plot.label));
}

}  // namespace onnxfit
