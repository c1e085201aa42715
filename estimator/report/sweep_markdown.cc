#include "estimator/report/sweep_markdown.h"

#include <fmt/format.h>

#include <limits>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate_rows.h"
#include "estimator/report/layout.h"
#include "estimator/report/markdown.h"
#include "estimator/report/sweep_rows.h"
#include "estimator/report/verdict_text.h"

namespace onnxfit {
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
