#include "estimator/report/max_batch_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/report/advice_text.h"
#include "estimator/report/csv.h"
#include "estimator/report/markdown.h"
#include "estimator/report/page.h"
#include "estimator/report/settings_text.h"
#include "estimator/report/verdict_text.h"

namespace onnxfit {
namespace {

constexpr size_t kShownLuckier = 8;

std::string RunOf(const MaxBatchRow& row) { return RunText(row.settings, row.dims); }

bool AreRunsAlike(const MaxBatchAnswer& answer) {
  return std::all_of(answer.rows.begin(), answer.rows.end(),
                     [&](const MaxBatchRow& row) { return RunOf(row) == RunOf(answer.rows[0]); });
}

std::string RunLine(const MaxBatchAnswer& answer, const TextOptions& options) {
  const std::string run = AreRunsAlike(answer) ? ", " + RunOf(answer.rows[0]) : "";
  const std::string changes = ChangesText(answer.rows[0].settings, answer.alloc_conf);
  const std::string model =
      CutMiddle(Clean(answer.model, options.ascii),
                kReportColumns - std::min<size_t>(Columns(run), 40), GlyphsOf(options).ellipsis);
  std::string text = Wrap("", Clean(model + run, options.ascii));
  if (!changes.empty()) text += Wrap("with ", Clean(changes, options.ascii));
  return text;
}

// --- One card ---------------------------------------------------------------------------

// The batch to take: one that fits, where there is one.
BatchOutcome RecommendedOf(const MaxBatch& answer) {
  const bool fits_less = answer.fitting && answer.fitting->batch > 0;
  return fits_less ? *answer.fitting : BatchOutcome{answer.batch, answer.judgement};
}

std::string Headline(const MaxBatch& answer, const TextOptions& options) {
  const auto [batch, judgement] = RecommendedOf(answer);
  const std::string used = fmt::format("{} of {}", FormatBytes(judgement.used_bytes),
                                       FormatBytes(judgement.usable_bytes));
  const auto line = [&, batch = batch, share = judgement.share()](std::string_view word,
                                                                  std::string_view name) {
    if (batch == 0) {
      return fmt::format("{} on {}, not even batch {}: {}", word, name, answer.judged_batch, used);
    }
    return fmt::format("batch {} on {}: {}, {}, {:.1f}%", batch, name, word, used, 100 * share);
  };
  const std::string word = VerdictWord(judgement.verdict);
  const std::string name = NameBeside(line(word, ""), answer.target.name, options);
  return line(Painted({word, options.color ? VerdictPaint(judgement.verdict) : ""}), name) + "\n";
}

std::string RangeOfBatches(int64_t first, int64_t last) {
  return first == last ? std::to_string(first) : fmt::format("{} to {}", first, last);
}

std::string NextText(const MaxBatch& answer) {
  const BatchOutcome& next = *answer.next;
  const int64_t first = answer.batch - ReachOf(answer.batch);
  const bool is_sampled = StrideOver(2 * ReachOf(answer.batch) + 1) > 1;
  std::string text =
      fmt::format("{}{} run{}; ", is_sampled ? "128 of " : "",
                  RangeOfBatches(first, next.batch - 1), first == next.batch - 1 ? "s" : "");
  text += std::to_string(next.batch) + " ";
  if (next.judgement.fails_at) return text + FailureText(*next.judgement.fails_at);
  return text +
         (next.judgement.reasons.empty() ? "fits" : "is tight: " + next.judgement.reasons[0]);
}

// What runs beyond the recommended batch, if only just.
std::string TightText(const MaxBatch& answer) {
  std::string text = fmt::format("up to {} it is TIGHT", answer.batch);
  if (answer.fitting->batch == 0) text = fmt::format("no batch FITS; {} is TIGHT", answer.batch);
  std::string separator = ": ";
  for (const std::string& reason : answer.judgement.reasons) {
    text += separator + reason;
    separator = "; ";
  }
  return text;
}

// How much the worse reading takes away.
std::string GuessText(const MaxBatch& answer) {
  return fmt::format(
      "batch {} if the file means what is likely; it leaves open what {} says, and the worse is "
      "taken",
      *answer.guessed_batch, answer.reading);
}

std::string LuckierText(const MaxBatch& answer) {
  const std::vector<int64_t>& luckier = answer.luckier;
  const size_t shown = std::min(luckier.size(), kShownLuckier);
  std::string text = fmt::format(
      "{}", fmt::join(luckier.begin(), luckier.begin() + static_cast<int64_t>(shown), ", "));
  if (shown < luckier.size()) text += fmt::format(" and {} more", luckier.size() - shown);
  return text + fmt::format(" run{} by luck: {} does not", luckier.size() == 1 ? "s" : "",
                            answer.next->batch);
}

// Why not one more, what runs all the same, how memory grows.
std::vector<std::string> AroundItems(const MaxBatchRow& row) {
  const MaxBatch& answer = row.found;
  std::vector<std::string> items;
  if (answer.fitting) items.push_back(TightText(answer));
  if (answer.guessed_batch) items.push_back(GuessText(answer));
  if (answer.is_limited) items.emplace_back("larger ones run, too: --max ends it");
  if (answer.next && answer.batch > 0) items.push_back(NextText(answer));
  if (!answer.luckier.empty()) items.push_back(LuckierText(answer));
  if (answer.per_sample_bytes > 0) {
    items.push_back(fmt::format("tensors take about {} + {} a sample",
                                FormatBytes(answer.fixed_bytes),
                                FormatBytes(answer.per_sample_bytes)));
  }
  if (row.estimate && !row.estimate->measured.empty()) items.push_back(row.estimate->measured);
  return items;
}

std::string AroundText(const MaxBatchRow& row, const TextOptions& options) {
  const std::vector<std::string> items = AroundItems(row);
  if (items.empty()) return "";
  std::string text = "\nAround it\n";
  for (const std::string& item : items) {
    text += Wrap("  - ", Clean(item, options.ascii));
  }
  return text;
}

std::string WarningLines(const Warnings& warnings, const TextOptions& options) {
  std::string text;
  for (const Warning& warning : warnings) {
    text += Wrap(fmt::format("  {}  ", warning.code), Clean(warning.text, options.ascii));
  }
  return text.empty() ? "" : "\nWarnings\n" + text;
}

std::string WhyNotText(const MaxBatchRow& row, const TextOptions& options) {
  if (row.why_not_largest.empty()) return "";
  return "\nWhy not take the largest\n" + Wrap("  ", Clean(row.why_not_largest, options.ascii));
}

std::string OneCard(const MaxBatchAnswer& answer, const TextOptions& options) {
  const MaxBatch& found = answer.rows[0].found;
  std::string text = Headline(found, options);
  if (options.quiet) return text;
  text += RunLine(answer, options) +
          VerdictDetails({.target = found.target, .judgement = RecommendedOf(found).judgement},
                         options);
  text += AroundText(answer.rows[0], options) + AdviceText(answer.rows[0].advice, options);
  if (found.batch > 0) text += WhyNotText(answer.rows[0], options);
  return TrimLines(
      text + WarningLines(answer.rows[0].estimate ? answer.rows[0].estimate->warnings : Warnings(),
                          options));
}

// --- Several ----------------------------------------------------------------------------

const std::vector<std::string> kHeader = {"card", "run",   "usable", "batch",
                                          "used", "share", "verdict"};
constexpr std::string_view kMaxBatchAlign = "llrrrrl";
constexpr size_t kRunColumn = 1;

std::vector<std::string> CellsOf(const MaxBatchRow& row) {
  const Judgement& judgement = row.found.judgement;
  return {row.found.target.name,
          RunOf(row),
          FormatBytes(judgement.usable_bytes),
          std::to_string(row.found.batch),
          FormatBytes(judgement.used_bytes),
          fmt::format("{:.1f}%", 100 * judgement.share()),
          VerdictWord(judgement.verdict)};
}

// The table's header and rows; the run has a column where it varies.
std::vector<std::vector<std::string>> TableOf(const MaxBatchAnswer& answer) {
  std::vector<std::vector<std::string>> table = {kHeader};
  for (const MaxBatchRow& row : answer.rows) table.push_back(CellsOf(row));
  if (!AreRunsAlike(answer)) return table;
  for (std::vector<std::string>& row : table) row.erase(row.begin() + kRunColumn);
  return table;
}

std::string_view AlignOf(const MaxBatchAnswer& answer) {
  return AreRunsAlike(answer) ? kMaxBatchAlign.substr(1)
                              : kMaxBatchAlign;  // two columns to the left, or one
}

std::string SeveralHeadline(const MaxBatchAnswer& answer) {
  const auto [least, most] = std::minmax_element(
      answer.rows.begin(), answer.rows.end(),
      [](const MaxBatchRow& a, const MaxBatchRow& b) { return a.found.batch < b.found.batch; });
  return fmt::format(
      "batch {}, by {}\n", RangeOfBatches(least->found.batch, most->found.batch),
      AreRunsAlike(answer) ? fmt::format("card ({} of them)", answer.rows.size()) : "run and card");
}

using CellRows = std::vector<std::vector<Cell>>;

size_t WidthOf(const CellRows& rows) {
  size_t width = kIndent.size();
  for (const size_t column : ColumnWidths(rows, rows[0].size())) width += column + 2;
  return width - 2;
}

// Cuts the cards' names to what the others leave of a line.
void CutCardNames(CellRows& rows, const Glyphs& glyphs) {
  const size_t over = WidthOf(rows) - std::min(WidthOf(rows), kReportColumns);
  const size_t width = ColumnWidths(rows, rows[0].size())[0];
  const size_t room = std::max(Columns(glyphs.ellipsis), width - std::min(width, over));
  for (std::vector<Cell>& row : rows) row[0].text = CutMiddle(row[0].text, room, glyphs.ellipsis);
}

CellRows CellsOf(const MaxBatchAnswer& answer, const TextOptions& options) {
  CellRows rows;
  for (const std::vector<std::string>& row : TableOf(answer)) {
    std::vector<Cell>& line = rows.emplace_back();
    for (const std::string& cell : row) line.push_back({Clean(cell, options.ascii)});
  }
  for (size_t i = 0; i < answer.rows.size() && options.color; ++i) {
    rows[i + 1].back().paint = VerdictPaint(answer.rows[i].found.judgement.verdict);
  }
  return rows;
}

// Runs that have no room in a column stand above their rows, whole.
std::string WithRunsApart(const MaxBatchAnswer& answer, CellRows rows, const TextOptions& options) {
  for (std::vector<Cell>& row : rows) row.erase(row.begin() + kRunColumn);
  CutCardNames(rows, GlyphsOf(options));
  const std::string table = Table(rows, kMaxBatchAlign.substr(1), kIndent);
  size_t begin = table.find('\n') + 1;
  std::string text = table.substr(0, begin);
  std::string last;
  for (const MaxBatchRow& row : answer.rows) {
    const std::string run = RunOf(row);
    if (run != last) text += Wrap(kIndent, Clean(run, options.ascii));
    last = run;
    const size_t end = table.find('\n', begin) + 1;
    text += table.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

std::string SeveralRows(const MaxBatchAnswer& answer, const TextOptions& options) {
  std::string text = SeveralHeadline(answer);
  if (options.quiet) return text;
  CellRows rows = CellsOf(answer, options);
  text += RunLine(answer, options) + "\n";
  if (!AreRunsAlike(answer) && WidthOf(rows) > kReportColumns) {
    text += WithRunsApart(answer, std::move(rows), options);
  } else {
    CutCardNames(rows, GlyphsOf(options));
    text += Table(rows, AlignOf(answer), kIndent);
  }
  return TrimLines(text + WarningLines(answer.warnings, options));
}

// What a page says of one card beyond its row.
std::string MarkdownItems(const MaxBatchRow& row) {
  std::vector<std::string> items;
  for (const std::string& reason : row.found.judgement.reasons) items.push_back(reason);
  for (std::string& item : AroundItems(row)) items.push_back(std::move(item));
  for (std::string& item : items) item = MarkdownText(item);
  for (const Advice& advice : row.advice) {
    if (!advice.max_batch) continue;
    items.push_back(fmt::format("{}: up to batch {}; {}", MarkdownCode(advice.flags),
                                *advice.max_batch, MarkdownText(advice.cost)));
  }
  return fmt::format("\n{}", MarkdownList(items));
}

}  // namespace

std::string ToText(const MaxBatchAnswer& answer, const TextOptions& options) {
  return answer.rows.size() == 1 ? OneCard(answer, options) : SeveralRows(answer, options);
}

std::string ToMarkdown(const MaxBatchAnswer& answer) {
  std::vector<std::vector<std::string>> rows = TableOf(answer);
  const std::vector<std::string> header = rows[0];
  rows.erase(rows.begin());
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = MarkdownText(cell);
  }
  const std::string run = AreRunsAlike(answer) ? ", " + RunOf(answer.rows[0]) : "";
  const std::string table = MarkdownTable(header, AlignOf(answer), rows);
  return fmt::format("Largest batch of {}{}\n\n{}{}", MarkdownCode(answer.model), MarkdownText(run),
                     table, answer.rows.size() == 1 ? MarkdownItems(answer.rows[0]) : "");
}

std::string ToCsv(const MaxBatchAnswer& answer) {
  std::string text = CsvLine({"model", "run", "precision", "optimizer", "mode", "gpu",
                              "memory_bytes", "max_batch", "used_bytes", "verdict"});
  for (const MaxBatchRow& row : answer.rows) {
    const TrainingSettings& settings = row.settings;
    text +=
        CsvLine({answer.model, RunOf(row), std::string(ToString(settings.precision)),
                 std::string(ToString(settings.optimizer)), std::string(ToString(settings.mode)),
                 row.found.target.name, std::to_string(row.found.target.total_bytes),
                 std::to_string(row.found.batch), std::to_string(row.found.judgement.used_bytes),
                 std::string(ToString(row.found.judgement.verdict))});
  }
  return text;
}

}  // namespace onnxfit
