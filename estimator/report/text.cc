#include "estimator/report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/page.h"
#include "estimator/report/settings_text.h"
#include "estimator/report/verdict_text.h"
#include "estimator/report/why_text.h"

namespace onnxfit {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr size_t kWidestBar = 20;
constexpr size_t kWidestSettings = 40;
constexpr size_t kWidestType = 30;

using Rows = std::vector<std::vector<Cell>>;

std::string Headline(const Page& page) {
  const std::string answer =
      fmt::format(": {} on the device", FormatBytes(page.estimate.device_bytes));
  const std::string settings = page.Cut(SettingsText(page.estimate), kWidestSettings);
  const size_t room = kReportColumns - Columns(answer) - Columns(settings) - 2;
  std::string_view path = page.estimate.model.path;
  if (Columns(page.Shown(path)) > room) path.remove_prefix(path.rfind('/') + 1);  // its name
  return page.Cut(path, room) + ", " + settings + answer + '\n';
}

// The answer to "does it fit?", where a card was named.
std::string Verdicts(const Page& page) {
  std::string text;
  for (const JudgedTarget& judged : page.estimate.targets) {
    text += VerdictLine(judged, page.options);
    if (!page.options.quiet) text += VerdictDetails(judged, page.options);
  }
  return text;
}

std::string ChangesLine(const Page& page) {
  const std::string text = ChangesText(page.estimate);
  return text.empty() ? "" : Wrap("with ", page.Shown(text));
}

// --- Where the bytes go -----------------------------------------------------------------

// The rows that are not empty, largest first, and whatever they leave of the total.
std::vector<BreakdownRow> ShownBreakdown(const Estimate& estimate) {
  std::vector<BreakdownRow> rows = estimate.breakdown;
  int64_t rest = estimate.device_bytes;
  for (const BreakdownRow& row : rows) rest -= row.bytes;
  rows.push_back({"unexplained", rest, Basis::kAssumed, {}, {}});
  std::erase_if(rows, [](const BreakdownRow& row) { return row.bytes == 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const BreakdownRow& a, const BreakdownRow& b) { return a.bytes > b.bytes; });
  return rows;
}

double ShareOf(int64_t bytes, int64_t total) {
  return total > 0 ? static_cast<double>(bytes) / static_cast<double>(total) : 0;
}

// Shares in tenths of a percent that add up to 1000: what rounding down leaves goes to
// the largest remainders.
std::vector<int> ShareTenths(const std::vector<BreakdownRow>& rows, int64_t total) {
  std::vector<int> tenths;
  std::vector<std::pair<double, size_t>> remainders;
  for (const BreakdownRow& row : rows) {
    const double share = 1000 * ShareOf(row.bytes, total);
    tenths.push_back(static_cast<int>(share));
    remainders.emplace_back(tenths.back() - share, remainders.size());
  }
  std::sort(remainders.begin(), remainders.end());
  int left = 1000 - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (const auto& [remainder, row] : remainders) {
    if (left-- <= 0) break;
    ++tenths[row];
  }
  return tenths;
}

std::string Percent(int tenths) { return fmt::format("{}.{}%", tenths / 10, tenths % 10); }

// "420.0–620.0 MiB", "412.0 MiB–1.20 GiB", "" where the row has no range.
std::string RangeText(const Page& page, const BreakdownRow& row) {
  if (!row.low || !row.high) return "";
  std::string low = FormatBytes(*row.low);
  const std::string high = FormatBytes(*row.high);
  const std::string unit = high.substr(high.find(' '));
  if (low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + std::string(page.glyphs.dash) + high;
}

constexpr std::string_view kBreakdownAlign = "lrrlll";
constexpr size_t kBarColumn = 3;

// All but the bars, whose width is what the others leave.
Rows BreakdownCells(const Page& page, const std::vector<BreakdownRow>& rows) {
  const std::vector<int> tenths = ShareTenths(rows, page.estimate.device_bytes);
  Rows cells;
  for (size_t i = 0; i < rows.size(); ++i) {
    cells.push_back({{page.Cut(WithSpaces(rows[i].kind), 20)},
                     {FormatBytes(rows[i].bytes)},
                     {Percent(tenths[i])},
                     {},
                     {std::string(ToString(rows[i].basis))},
                     {RangeText(page, rows[i])}});
  }
  cells.push_back({{"total"}, {FormatBytes(page.estimate.device_bytes)}, {"100.0%"}});
  return cells;
}

size_t WidestLine(const std::string& text) {
  size_t widest = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    widest = std::max(widest, Columns(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
}

std::string Breakdown(const Page& page) {
  const std::vector<BreakdownRow> rows = ShownBreakdown(page.estimate);
  if (rows.empty()) return "";
  Rows cells = BreakdownCells(page, rows);
  const size_t used = WidestLine(Table(cells, kBreakdownAlign, kIndent));
  const size_t width = std::min(kWidestBar, kReportColumns - std::min(used, kReportColumns));
  for (size_t i = 0; i < rows.size(); ++i) {
    const double share = ShareOf(rows[i].bytes, rows[0].bytes);
    cells[i][kBarColumn] = {Bar(share, width, page.glyphs), page.Paint(kCyan)};
  }
  return "\nWhere the bytes go\n" + Table(cells, kBreakdownAlign, kIndent);
}

// --- When -------------------------------------------------------------------------------

std::string PeakText(const Page& page) {
  const Estimate& estimate = page.estimate;
  if (estimate.peak_step == 0) return "";
  std::string text = fmt::format("The peak is in step {}, {}", estimate.peak_step,
                                 page.Cut(estimate.peak_phase, 20));
  if (estimate.peak_node.empty()) return text + ".\n";
  text += ", at ";
  return text + page.Cut(estimate.peak_node, kReportColumns - Columns(text) - 1) + ".\n";
}

int64_t WholeMebibytes(int64_t bytes) { return bytes / kMiB + (bytes % kMiB != 0 ? 1 : 0); }

std::string Totals(const Page& page) {
  const Estimate& estimate = page.estimate;
  std::string text =
      fmt::format("\nnvidia-smi will show about {} MiB", WholeMebibytes(estimate.device_bytes));
  if (estimate.range) {
    text += fmt::format(", {} to {} by what the file has lost",
                        WholeMebibytes(estimate.range->low.device_bytes),
                        WholeMebibytes(estimate.range->high.device_bytes));
  }
  return text + ".\n" + PeakText(page);
}

std::vector<int64_t> StepColumns(const StepFigures& step, Mode mode) {
  const Peak& peak = step.peak;
  if (mode == Mode::kEval) {
    return {peak.exact_bytes, peak.allocated_bytes, peak.reserved_bytes};
  }
  return {step.after_forward.allocated_bytes, step.after_backward.allocated_bytes,
          step.after_step.allocated_bytes, peak.allocated_bytes, peak.reserved_bytes};
}

std::string Steps(const Page& page) {
  const Estimate& estimate = page.estimate;
  if (estimate.steps.empty()) return "";
  const bool eval = estimate.settings.mode == Mode::kEval;
  Rows cells = {{{"step"},
                 {"after forward"},
                 {"after backward"},
                 {"after step"},
                 {"peak allocated"},
                 {"peak reserved"}}};
  if (eval) cells = {{{"step"}, {"peak exact"}, {"peak allocated"}, {"peak reserved"}}};
  for (size_t i = 0; i < estimate.steps.size(); ++i) {
    std::vector<Cell> row = {{std::to_string(i + 1)}};
    for (const int64_t bytes : StepColumns(estimate.steps[i], estimate.settings.mode)) {
      row.push_back({FormatBytes(bytes)});
    }
    cells.push_back(std::move(row));
  }
  return "\nStep by step\n" + Table(cells, "rrrrrr", kIndent);
}

// --- What -------------------------------------------------------------------------------

struct TensorGroup {
  const LargeTensor* tensor = nullptr;
  int64_t count = 0;
};

// The first `rows` groups of tensors that a report could not tell apart, in the order of
// their first members.
std::vector<TensorGroup> Groups(const std::vector<LargeTensor>& tensors, size_t rows) {
  std::map<
      std::tuple<std::string_view, DType, Dims, int64_t, Kind, std::string_view, std::string_view>,
      size_t>
      index;
  std::vector<TensorGroup> groups;
  for (const LargeTensor& t : tensors) {
    const auto [at, added] = index.try_emplace(
        {t.name, t.type.dtype, t.type.dims, t.bytes, t.kind, t.born, t.dies}, groups.size());
    if (added) groups.push_back({&t, 0});
    ++groups[at->second].count;
  }
  groups.resize(std::min(rows, groups.size()));
  return groups;
}

std::string SizeText(const Page& page, const TensorGroup& group) {
  const std::string size = FormatBytes(group.tensor->bytes);
  if (group.count == 1) return size;
  return fmt::format("{} {} {}", group.count, page.glyphs.times, size);
}

// "activations, /conv1 → /relu"; both operators get the same room.
std::string LifeText(const Page& page, const LargeTensor& tensor, size_t columns) {
  const std::string kind = WithSpaces(ToString(tensor.kind)) + ", ";
  const size_t arrow = Columns(page.glyphs.arrow) + 2;
  const size_t room = (columns - Columns(kind) - arrow) / 2;
  return fmt::format("{}{} {} {}", kind,
                     page.Cut(tensor.born.empty() ? "setup" : tensor.born, room), page.glyphs.arrow,
                     page.Cut(tensor.dies.empty() ? "end" : tensor.dies, room));
}

// Two lines a tensor: size, type and name; under them what holds it and its life.
std::string Largest(const Page& page) {
  const std::vector<TensorGroup> groups = Groups(page.estimate.largest, page.options.rows);
  Rows cells;
  for (const TensorGroup& group : groups) {
    cells.push_back(
        {{SizeText(page, group)}, {page.Cut(ToString(group.tensor->type), kWidestType)}});
  }
  const std::vector<size_t> widths = ColumnWidths(cells, 2);
  const std::string indent(kIndent.size() + widths[0] + 2, ' ');
  const size_t room = kReportColumns - indent.size();
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i) {
    const LargeTensor& tensor = *groups[i].tensor;
    text += fmt::format("{}{}  {}  {}\n{}{}\n", kIndent, PadLeft(cells[i][0].text, widths[0]),
                        PadRight(cells[i][1].text, widths[1]),
                        page.Cut(tensor.name, room - widths[1] - 2), indent,
                        LifeText(page, tensor, room));
  }
  return text.empty() ? "" : "\nLargest tensors at the peak\n" + text;
}

// --- What else --------------------------------------------------------------------------

std::string Bullets(const Page& page, std::string_view title,
                    const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += Wrap("  - ", page.Shown(item));
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

// The colour goes in last: it has no columns.
std::string WarningLines(const Page& page) {
  std::string text;
  for (const Warning& warning : page.estimate.warnings) {
    const std::string code = page.Cut(warning.code, 8);
    std::string lines = Wrap(fmt::format("  {}  ", code), page.Shown(warning.text));
    const size_t place = lines.find(code);
    text += lines.replace(place, code.size(), Painted({code, page.Paint(kYellow)}));
  }
  return text.empty() ? "" : "\nWarnings\n" + text;
}

// Three lines a step.
std::string StepEvents(const Page& page) {
  std::string text;
  for (const StepSummary& step : page.estimate.step_events) {
    text += fmt::format("  step {}: {} allocations, {} frees\n", step.peak.step, step.allocations,
                        step.frees);
    const std::string size = FormatBytes(step.largest_bytes);
    if (step.allocations > 0) text += Wrap("    largest: ", page.Shown(size + ", " + step.largest));
    text += Wrap("    peak: ",
                 page.Shown(fmt::format("{} allocated, {}", FormatBytes(step.peak_allocated_bytes),
                                        PhaseText(step.peak))));
  }
  return text.empty() ? "" : "\nEvents\n" + text;
}

// What only -v shows.
std::string Details(const Page& page) {
  const Estimate& estimate = page.estimate;
  const ModelSummary& model = estimate.model;
  const Peak& peak = estimate.peak;
  std::vector<std::string> items = {
      fmt::format("model: opset {}, {} nodes, {} parameters ({}), buffers {}", model.opset,
                  model.nodes, model.parameters, FormatBytes(model.parameter_bytes),
                  FormatBytes(model.buffer_bytes)),
      fmt::format("run: {}, loss {}, {}", ToString(estimate.settings.mode),
                  ToString(estimate.settings.loss), estimate.settings.framework.name),
      fmt::format("peak in bytes: exact {}, allocated {}, reserved {}, device {}", peak.exact_bytes,
                  peak.allocated_bytes, peak.reserved_bytes, estimate.device_bytes)};
  return Bullets(page, "Details", items) + StepEvents(page) +
         Bullets(page, "Notes", estimate.notes);
}

}  // namespace

std::string ToText(const Estimate& estimate, const TextOptions& options) {
  const Page page = {estimate, options, options.ascii ? kAsciiGlyphs : kUnicodeGlyphs};
  std::string text = Verdicts(page);
  if (text.empty() || !options.quiet) text += Headline(page);
  if (options.quiet) return TrimLines(text);
  if (estimate.why) {
    text += ChangesLine(page) + Totals(page) + WhyText(page, *estimate.why) + WarningLines(page);
  } else {
    text += ChangesLine(page) + Breakdown(page) + Totals(page) + Steps(page) + Largest(page) +
            Bullets(page, "Assumptions", estimate.assumptions) + WarningLines(page);
  }
  if (options.verbose) text += Details(page);
  return TrimLines(text);
}

}  // namespace onnxfit
