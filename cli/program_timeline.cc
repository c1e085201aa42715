#include "cli/program_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace onnxfit {

TimelinePlot PlotOf(const RunCurve& drawn) {
  const RecordedCurve& curve = drawn.curve;
  TimelinePlot plot = {.title = fmt::format("In tensors while it ran, {}{} events",
                                            curve.is_cut ? "the last " : "", curve.events),
                       .staying = "what lives for a third of the time or more",
                       .peak_at = drawn.asked_by[curve.peak]};
  const size_t all = curve.requested_bytes.size();
  const size_t points = std::min(kTerminalPoints, all);
  const auto begin = curve.requested_bytes.begin();
  for (size_t point = 0; point < points; ++point) {
    // The first of the curve's points that falls on this one, and that of the next.
    const auto from = static_cast<std::ptrdiff_t>((point * all + points - 1) / points);
    const auto to = static_cast<std::ptrdiff_t>(((point + 1) * all + points - 1) / points);
    const auto most = std::max_element(begin + from, begin + to);
    plot.bytes.push_back(*most);
    plot.staying_bytes.push_back(curve.staying_bytes[static_cast<size_t>(most - begin)]);
  }
  plot.peak = curve.peak * points / all;
  for (size_t turn = 0; turn < curve.turns.size(); ++turn) {
    // Of a history that is cut nobody knows the first turn's number.
    plot.marks.push_back({curve.turns[turn] * points / all,
                          curve.is_cut ? "turn" : fmt::format("turn {}", turn + 1)});
  }
  return plot;
}

}  // namespace onnxfit
