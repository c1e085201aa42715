// A table over combinations: text, then Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/sentences.h"
#include "estimator/report/sweep_parts.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestSwept = 40;
constexpr size_t kWidestHeader = 16;  // of a dimension or a target, above its column
constexpr size_t kMostOfSome = 6;     // sentences that only some rows have

using Row = std::vector<Cell>;

struct TablePage {
  const SweepAnswer& answer;
  const TextOptions& options;
  const Glyphs& glyphs;
  SweepSummary summary;

  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string Cut(std::string_view text, size_t columns) const {
    return CutMiddle(Shown(text), columns, glyphs.ellipsis);
  }
  std::string_view Paint(Verdict verdict) const {
    return options.color ? VerdictPaint(verdict) : "";
  }
};

// The path, or its last part where there is no room for it, and what varies.
std::string Subject(const TablePage& page, size_t room) {
  const std::string swept = page.Cut(SweptText(page.answer.sweep, page.glyphs.times), kWidestSwept);
  const size_t rest = room - std::min(room, Columns(swept) + 2);
  std::string_view path = page.answer.model;
  if (Columns(page.Shown(path)) > rest) path.remove_prefix(path.rfind('/') + 1);
  return page.Cut(page.Cut(path, std::max<size_t>(rest, 4)) + ", " + swept, room);
}

std::string Head(const TablePage& page) {
  const std::string device = DeviceText(page.summary);
  const std::string verdicts = VerdictsText(page.summary);
  if (verdicts.empty()) {
    return fmt::format("{}: {}\n", Subject(page, kReportColumns - Columns(device) - 2), device);
  }
  const std::string answer =
      fmt::format("{}: {}\n", verdicts, Subject(page, kReportColumns - Columns(verdicts) - 2));
  return page.options.quiet ? answer : answer + device + '\n';
}

// --- The table --------------------------------------------------------------------------

// Where the parts of a row go, the narrower ones later.
enum class Layout : uint8_t {
  kOneLine,      // all that varies, figures and targets
  kLineATarget,  // targets below one another
  kApart,        // what varies above the rest
};

Cell VerdictCell(const TablePage& page, const JudgedTarget& judged) {
  const Verdict verdict = judged.judgement.verdict;
  return {fmt::format("{:<5} {:>6}", VerdictWord(verdict), TargetShare(judged.judgement)),
          page.Paint(verdict)};
}

Row AxisCells(const TablePage& page, const SweepRow& row) {
  Row cells;
  for (const std::string& value : AxisValues(page.answer.sweep, row)) cells.push_back({value});
  return cells;
}

Row AxisHeader(const TablePage& page) {
  Row cells;
  for (const std::string& name : AxisNames(page.answer.sweep)) {
    cells.push_back({page.Cut(name, kWidestHeader)});
  }
  return cells;
}

void Append(Row& to, const Row& from) { to.insert(to.end(), from.begin(), from.end()); }

Row FigureCells(const Estimate& estimate) {
  return {{FormatBytes(estimate.peak.allocated_bytes)},
          {FormatBytes(estimate.peak.reserved_bytes)},
          {FormatBytes(estimate.device_bytes)}};
}

// A table's lines, and of which row each one is (none for the header).
struct Lines {
  std::vector<Row> cells;
  std::vector<std::optional<size_t>> row;
  std::string align;
};

void AddHeader(const TablePage& page, Layout layout, Lines& lines) {
  Row header;
  if (layout != Layout::kApart) {
    header = AxisHeader(page);
    lines.align = AxisAlign(page.answer.sweep);
  }
  Append(header, {{"allocated"}, {"reserved"}, {"device"}});
  lines.align += "rrr";
  const std::vector<JudgedTarget>& targets = TargetsOf(page.answer);
  for (const JudgedTarget& judged : targets) {
    if (layout != Layout::kOneLine) break;
    header.push_back({page.Cut(judged.target.name, kWidestHeader)});
    lines.align += 'l';
  }
  lines.align += layout != Layout::kOneLine && !targets.empty() ? "ll" : "";
  lines.cells.push_back(header);
  lines.row.emplace_back();
}

void AddRow(const TablePage& page, Layout layout, size_t index, Lines& lines) {
  const SweepRow& row = page.answer.rows[index];
  Row line;
  if (layout != Layout::kApart) line = AxisCells(page, row);
  const size_t axes = line.size();
  const auto add = [&](const Row& cells) {
    lines.cells.push_back(cells);
    lines.row.emplace_back(index);
  };
  if (!row.estimate) return add(line);
  Append(line, FigureCells(*row.estimate));
  const std::vector<JudgedTarget>& targets = row.estimate->targets;
  if (layout == Layout::kOneLine || targets.empty()) {
    for (const JudgedTarget& judged : targets) line.push_back(VerdictCell(page, judged));
    return add(line);
  }
  for (const JudgedTarget& judged : targets) {
    Append(line, {{page.Cut(judged.target.name, kWidestHeader)}, VerdictCell(page, judged)});
    add(line);
    line.assign(axes + 3, {});  // said by the first line
  }
}

Lines LinesOf(const TablePage& page, Layout layout) {
  Lines lines;
  AddHeader(page, layout, lines);
  for (size_t i = 0; i < page.answer.rows.size(); ++i) AddRow(page, layout, i, lines);
  return lines;
}

size_t WidthOf(const Lines& lines) {
  size_t width = kIndent.size();
  for (const size_t column : ColumnWidths(lines.cells, lines.align.size())) width += column + 2;
  return width - 2;
}

// A row's values before the reason that it has no answer, in columns where there are some.
std::string RefusedLine(const TablePage& page, const std::string& values, const SweepRow& row) {
  const std::string reason = page.Shown("no answer: " + row.error);
  if (Columns(values) + 2 <= kReportColumns / 2) return Wrap(values + "  ", reason);
  return values + '\n' + Wrap("    ", reason);
}

// "batch 8, seq 512, bf16" above its figures.
std::string ApartLine(const TablePage& page, const SweepRow& row) {
  const std::vector<std::string> names = AxisNames(page.answer.sweep);
  const std::vector<std::string> values = AxisValues(page.answer.sweep, row);
  const std::string align = AxisAlign(page.answer.sweep);
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i > 0 ? ", " : "") + (align[i] == 'r' ? names[i] + " " : "") + values[i];
  }
  return Wrap(kIndent, page.Shown(text));
}

std::string Drawn(const TablePage& page, Layout layout, const Lines& lines) {
  const std::string table = Table(lines.cells, lines.align, kIndent);
  std::string text;
  std::optional<size_t> last;
  size_t begin = 0;
  for (const std::optional<size_t>& index : lines.row) {
    const size_t end = table.find('\n', begin) + 1;
    const std::string line = table.substr(begin, end - begin);
    begin = end;
    const SweepRow* row = index ? &page.answer.rows[*index] : nullptr;
    if (layout == Layout::kApart && row != nullptr && index != last) text += ApartLine(page, *row);
    last = index;
    if (row == nullptr || row->estimate) {
      text += line;
    } else {
      text += RefusedLine(page, line.substr(0, line.size() - 1), *row);
    }
  }
  return text;
}

std::string Body(const TablePage& page) {
  for (const Layout layout : {Layout::kOneLine, Layout::kLineATarget}) {
    const Lines lines = LinesOf(page, layout);
    if (WidthOf(lines) <= kReportColumns) return Drawn(page, layout, lines);
  }
  return Drawn(page, Layout::kApart, LinesOf(page, Layout::kApart));
}

// --- What else --------------------------------------------------------------------------

// The colour goes in last: it has no columns.
std::string RemarkLines(const TablePage& page, const Remark& remark) {
  const std::string text =
      page.Shown(remark.where.empty() ? remark.text : remark.where + ": " + remark.text);
  if (remark.code.empty()) return Wrap("  - ", text);
  const std::string code = page.Cut(remark.code, 8);
  std::string lines = Wrap(fmt::format("  {}  ", code), text);
  return lines.replace(kIndent.size(), code.size(),
                       Painted({code, page.options.color ? kYellow : ""}));
}

std::string Section(const TablePage& page, std::string_view title, WarningsFunction sentences_of) {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  const Remarks remarks = RemarksOf(page.answer, sentences_of,
                                    page.options.verbose ? kAll : kMostOfSome, page.glyphs.dash);
  if (remarks.shown.empty()) return "";
  std::string text = fmt::format("\n{}\n", title);
  for (const Remark& remark : remarks.shown) text += RemarkLines(page, remark);
  if (remarks.left_out > 0) {
    text += fmt::format("  - {} more of some rows (-v shows all)\n", remarks.left_out);
  }
  return text;
}

}  // namespace

std::string ToText(const SweepAnswer& answer, const TextOptions& options) {
  const TablePage page = {answer, options, options.ascii ? kAsciiGlyphs : kUnicodeGlyphs,
                          Summarize(answer)};
  std::string text = Head(page);
  if (options.quiet) return TrimLines(text);
  text += Wrap("with ", page.Shown(FixedText(answer))) + '\n' + Body(page) +
          fmt::format("\n{} will show about what device says.\n", MonitorOf(TargetsOf(answer))) +
          Section(page, "Assumptions", AssumptionsOf) + Section(page, "Warnings", WarningsOf);
  if (options.verbose) text += Section(page, "Notes", NotesOf);
  return TrimLines(text);
}

// What follows writes Markdown.
namespace {

using Cells = std::vector<std::string>;

struct MarkdownTablePage {
  const SweepAnswer& answer;
  const TextOptions& options;
  const Glyphs& glyphs;
  SweepSummary summary;

  std::string Escaped(std::string_view text) const {
    return MarkdownText(Clean(text, options.ascii));
  }
};

std::string Head(const MarkdownTablePage& page) {
  const std::string verdicts = VerdictsText(page.summary);
  const std::string device = DeviceText(page.summary);
  return fmt::format("**{}**: {}, {}{}\n", verdicts.empty() ? device : verdicts,
                     MarkdownCode(Clean(page.answer.model, page.options.ascii)),
                     page.Escaped(SweptText(page.answer.sweep, page.glyphs.times)),
                     verdicts.empty() ? "" : ", " + device);
}

bool HasRefused(const MarkdownTablePage& page) {
  return page.summary.answered < page.answer.rows.size();
}

Cells Header(const MarkdownTablePage& page) {
  Cells cells;
  for (const std::string& name : AxisNames(page.answer.sweep)) cells.push_back(page.Escaped(name));
  for (const char* figure : {"allocated", "reserved", "device"}) cells.emplace_back(figure);
  for (const JudgedTarget& judged : TargetsOf(page.answer)) {
    cells.push_back(page.Escaped(judged.target.name));
  }
  if (HasRefused(page)) cells.emplace_back("no answer");
  return cells;
}

Cells RowCells(const MarkdownTablePage& page, const SweepRow& row, size_t columns) {
  Cells cells = AxisValues(page.answer.sweep, row);
  if (!row.estimate) {
    cells.resize(columns - 1);
    cells.push_back(page.Escaped(row.error));
    return cells;
  }
  const Estimate& estimate = *row.estimate;
  for (const int64_t bytes :
       {estimate.peak.allocated_bytes, estimate.peak.reserved_bytes, estimate.device_bytes}) {
    cells.push_back(FormatBytes(bytes));
  }
  for (const JudgedTarget& judged : estimate.targets) {
    const Verdict verdict = judged.judgement.verdict;
    const std::string word = VerdictWord(verdict);
    cells.push_back(fmt::format("{} {}", verdict == Verdict::kFits ? word : "**" + word + "**",
                                TargetShare(judged.judgement)));
  }
  return cells;
}

std::string Body(const MarkdownTablePage& page) {
  const Cells header = Header(page);
  const std::string align = AxisAlign(page.answer.sweep) + "rrr" +
                            std::string(TargetsOf(page.answer).size(), 'l') +
                            (HasRefused(page) ? "l" : "");
  std::vector<Cells> rows;
  for (const SweepRow& row : page.answer.rows) rows.push_back(RowCells(page, row, header.size()));
  return MarkdownTable(header, align, rows);
}

std::string Section(const MarkdownTablePage& page, std::string_view title,
                    WarningsFunction sentences_of) {
  constexpr size_t kMostOfSome = 6;
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  const Remarks remarks = RemarksOf(page.answer, sentences_of,
                                    page.options.verbose ? kAll : kMostOfSome, page.glyphs.dash);
  if (remarks.shown.empty()) return "";
  Cells items;
  for (const Remark& remark : remarks.shown) {
    const std::string code =
        remark.code.empty() ? "" : fmt::format("**{}** ", page.Escaped(remark.code));
    const std::string where = remark.where.empty() ? "" : page.Escaped(remark.where) + ": ";
    items.push_back(code + where + page.Escaped(remark.text));
  }
  if (remarks.left_out > 0) {
    items.push_back(fmt::format("{} more of some rows (-v shows all)", remarks.left_out));
  }
  return fmt::format("\n### {}\n\n{}", title, MarkdownList(items));
}

}  // namespace

std::string ToMarkdown(const SweepAnswer& answer, const TextOptions& options) {
  const MarkdownTablePage page = {answer, options, options.ascii ? kAsciiGlyphs : kUnicodeGlyphs,
                                  Summarize(answer)};
  std::string text = Head(page);
  if (options.quiet) return text;
  text += fmt::format("\nwith {}\n\n", page.Escaped(FixedText(answer))) + Body(page) +
          fmt::format("\n{} will show about what device says.\n", MonitorOf(TargetsOf(answer))) +
          Section(page, "Assumptions", AssumptionsOf) + Section(page, "Warnings", WarningsOf);
  if (options.verbose) text += Section(page, "Notes", NotesOf);
  return text;
}

}  // namespace onnxfit
