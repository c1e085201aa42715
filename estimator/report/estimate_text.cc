#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestBar = 20;
constexpr size_t kLeastPath = 12;  // beside the settings, else those get a line of their own
constexpr size_t kWidestType = 30;
constexpr size_t kWidestModule = 24;

using Rows = std::vector<std::vector<Cell>>;

// The path, or its last part where there is no room for it.
std::string ShownPath(const Page& page, size_t room) {
  std::string_view path = page.estimate.model.path;
  if (Columns(page.Shown(path)) > room) path.remove_prefix(path.rfind('/') + 1);
  return page.Cut(path, room);
}

std::string Headline(const Page& page) {
  const Estimate& estimate = page.estimate;
  const std::string answer =
      IsTotalOfTargets(estimate)
          ? fmt::format(": {} on the device", FormatBytes(estimate.device_bytes))
          : "";
  const std::string settings = page.Shown(SettingsText(estimate));
  const size_t taken = Columns(answer) + Columns(settings) + 2;
  if (taken + kLeastPath <= kReportColumns) {
    return ShownPath(page, kReportColumns - taken) + ", " + settings + answer + '\n';
  }
  const std::string line = ShownPath(page, kReportColumns - Columns(answer)) + answer + '\n';
  return page.options.quiet ? line : line + Wrap(kIndent, settings);
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

// How many ranks were tried until it was enough.
std::string Worlds(const Page& page) {
  if (page.estimate.worlds.empty()) return "";
  Rows cells;
  for (const WorldOutcome& outcome : page.estimate.worlds) {
    const Judgement& judgement = outcome.judgement;
    cells.push_back({{std::to_string(outcome.world)},
                     {VerdictWord(judgement.verdict)},
                     {FormatBytes(judgement.used_bytes)}});
  }
  return "\nOver how many ranks, and what each has\n" + Table(cells, "rlr", kIndent);
}

std::string AdviceLines(const Page& page) {
  std::string text;
  for (const JudgedTarget& judged : page.estimate.targets) {
    text += AdviceText(judged.advice, page.options);
  }
  return text;
}

std::string ChangesLine(const Page& page) {
  const std::string text = ChangesText(page.estimate);
  return text.empty() ? "" : Wrap("with ", page.Shown(text));
}

// --- Where the bytes go -----------------------------------------------------------------

constexpr std::string_view kBreakdownAlign = "lrrlll";
constexpr size_t kBarColumn = 3;

// All but the bars, whose width is what the others leave.
Rows BreakdownCells(const Page& page, const std::vector<BreakdownRow>& rows) {
  const std::vector<std::string> shares = SharesOf(rows, page.estimate.device_bytes);
  Rows cells;
  for (size_t i = 0; i < rows.size(); ++i) {
    cells.push_back({{page.Cut(WithSpaces(rows[i].kind), 20)},
                     {FormatBytes(rows[i].bytes)},
                     {shares[i]},
                     {},
                     {std::string(ToString(rows[i].basis))},
                     {RangeText(rows[i], page.glyphs.dash)}});
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
  return fmt::format("\n{}\n{}", BreakdownTitle(page.estimate),
                     Table(cells, kBreakdownAlign, kIndent));
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

std::string Totals(const Page& page) {
  const std::string trials = TrialsText(page.estimate);
  return '\n' + Wrap("", NvidiaSmiText(page.estimate)) + PeakText(page) +
         (trials.empty() ? "" : Wrap("", trials));
}

std::string Steps(const Page& page) {
  if (page.estimate.steps.empty()) return "";
  Rows cells;
  for (const std::vector<std::string>& row : StepRows(page.estimate)) {
    std::vector<Cell>& line = cells.emplace_back();
    for (const std::string& text : row) line.push_back({text});
  }
  return "\nStep by step\n" + Table(cells, "rrrrrr", kIndent);
}

// --- What -------------------------------------------------------------------------------

// "activations, /conv1 → /relu"; both operators get the same room.
std::string LifeText(const Page& page, const TensorGroup& group, size_t columns) {
  const std::string kind = WithSpaces(ToString(group.tensor->kind)) + ", ";
  const size_t arrow = Columns(page.glyphs.arrow) + 2;
  const size_t room = (columns - Columns(kind) - arrow) / 2;
  return fmt::format("{}{} {} {}", kind, page.Cut(group.born, room), page.glyphs.arrow,
                     page.Cut(group.dies, room));
}

// Bytes, their share of what is exact, and what they are for.
std::string Modules(const Page& page) {
  const std::vector<ModuleSum>& modules = page.estimate.modules;
  Rows cells;
  for (const ModuleSum& sum : LargestModules(modules, page.options.rows)) {
    const double share = 100 * ShareOf(sum.bytes(), modules[0].bytes());
    cells.push_back({{FormatBytes(sum.bytes())},
                     {fmt::format("{:.1f}%", share)},
                     {page.Cut(sum.path, kWidestModule)},
                     {ModuleText(sum)}});
  }
  if (cells.empty()) return "";
  const std::vector<size_t> widths = ColumnWidths(cells, cells[0].size());
  const size_t others = kIndent.size() + widths[0] + widths[1] + widths[2] + 3 * 2;
  for (std::vector<Cell>& row : cells) {
    row[3].text = page.Cut(row[3].text, kReportColumns - std::min(others, kReportColumns));
  }
  return "\nLargest modules at the peak\n" + Table(cells, "rrll", kIndent);
}

// Two lines a tensor: size, type and name; under them what holds it and its life.
std::string Largest(const Page& page) {
  const std::vector<TensorGroup> groups = Groups(page.estimate.largest, page.options.rows);
  Rows cells;
  for (const TensorGroup& group : groups) {
    cells.push_back({{SizeText(group, page.glyphs.times)},
                     {page.Cut(ToString(group.tensor->type), kWidestType)}});
  }
  const std::vector<size_t> widths = ColumnWidths(cells, 2);
  const std::string indent(kIndent.size() + widths[0] + 2, ' ');
  const size_t room = kReportColumns - indent.size();
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i) {
    text += fmt::format("{}{}  {}  {}\n{}{}\n", kIndent, PadLeft(cells[i][0].text, widths[0]),
                        PadRight(cells[i][1].text, widths[1]),
                        page.Cut(groups[i].name, room - widths[1] - 2), indent,
                        LifeText(page, groups[i], room));
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
  return Bullets(page, "Details", DetailLines(page.estimate)) + StepEvents(page) +
         Bullets(page, "Notes", page.estimate.notes);
}

}  // namespace

std::string ToText(const Estimate& estimate, const TextOptions& options) {
  const Page page = {estimate, options, GlyphsOf(options)};
  std::string text = Verdicts(page);
  if (text.empty() || !options.quiet) text += Headline(page);
  if (options.quiet) return TrimLines(text);
  if (estimate.why) {
    text += ChangesLine(page) + Totals(page) + WhyText(page, *estimate.why) + WarningLines(page);
  } else {
    text += ChangesLine(page) + Worlds(page) + AdviceLines(page) + Breakdown(page) + Totals(page) +
            Steps(page) + Modules(page) + Largest(page) +
            Bullets(page, "Assumptions", estimate.assumptions) + WarningLines(page);
  }
  if (options.verbose) text += Details(page);
  return TrimLines(text);
}

}  // namespace onnxfit
