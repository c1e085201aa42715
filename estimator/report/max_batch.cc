// The largest batch for people: text and Markdown.
#include "estimator/report/max_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/fit/worlds.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/sentences.h"
#include "estimator/report/sweep_parts.h"

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

// "" where all were.
std::string TriedText(int64_t stride) {
  return stride > 1 ? fmt::format(" (one in {} was tried)", stride) : "";
}

std::string NextText(const MaxBatch& answer) {
  const BatchOutcome& next = *answer.next;
  const int64_t first = answer.batch - ReachOf(answer.batch);
  const int64_t stride = StrideOver(2 * ReachOf(answer.batch) + 1);
  std::string text = fmt::format("{} run{}{}; ", RangeOfBatches(first, next.batch - 1),
                                 first == next.batch - 1 ? "s" : "", TriedText(stride));
  text += std::to_string(next.batch) + " ";
  if (next.judgement.fails_at) return text + FailureText(*next.judgement.fails_at);
  return text +
         (next.judgement.reasons.empty() ? "fits" : "is tight: " + next.judgement.reasons[0]);
}

// What runs beyond the recommended batch, if only just: why it does where it is that batch is said
// already.
std::string TightText(const MaxBatch& answer) {
  if (answer.fitting->batch == 0) return "no batch FITS";
  return TightUpToText(answer.batch, answer.judgement);
}

// How much the worse reading takes away.
std::string GuessText(const MaxBatch& answer) {
  return fmt::format(
      "up to {} run if what is likely is so; what {} says is left open, and the worse is taken",
      *answer.guessed_batch, answer.reading);
}

std::string LuckierText(const MaxBatch& answer) {
  const std::vector<int64_t>& luckier = answer.luckier;
  const size_t shown = std::min(luckier.size(), kShownLuckier);
  std::string text = fmt::format(
      "{}", fmt::join(luckier.begin(), luckier.begin() + static_cast<int64_t>(shown), ", "));
  if (shown < luckier.size()) text += fmt::format(" and {} more", luckier.size() - shown);
  return text + fmt::format(" run{} by luck{}: {} does not", luckier.size() == 1 ? "s" : "",
                            TriedText(answer.luckier_stride), answer.next->batch);
}

// How many samples a step has.
std::string SamplesText(const TrainingSettings& settings, int64_t batch) {
  const int64_t world = settings.ranks.world;
  const int64_t micro_batches = settings.loop.accumulate;
  if (settings.ranks.strategy == Strategy::kPipeline) {
    return fmt::format("{} micro-batches through {} cards: {} samples a step", micro_batches, world,
                       batch * micro_batches);
  }
  return fmt::format("on each of {} cards: {} samples a step together", CountRanks(settings.ranks),
                     batch * world);
}

// Why not one more, what runs all the same, how memory grows.
std::vector<std::string> AroundItems(const MaxBatchRow& row) {
  const MaxBatch& answer = row.found;
  std::vector<std::string> items;
  const RankSettings& ranks = row.settings.ranks;
  const int64_t batch = RecommendedOf(answer).batch;
  if (ranks.strategy != Strategy::kNone && batch > 0) {
    items.push_back(SamplesText(row.settings, batch));
  }
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
  if (answer.grows_faster) {
    items.emplace_back(
        "tensors grow faster than the batch: a sample takes more, the more there are");
  }
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

// What is said of all rows; what differs in its numbers alone as one.
struct RowRemarks {
  Warnings assumptions;  // without a code
  Warnings warnings;
};

RowRemarks RowRemarksOf(const MaxBatchAnswer& answer, std::string_view dash) {
  RowRemarks remarks;
  const auto add = [&](const std::vector<std::string>& assumptions, const Warnings& warnings) {
    for (const std::string& text : assumptions) remarks.assumptions.push_back({"", text});
    remarks.warnings.insert(remarks.warnings.end(), warnings.begin(), warnings.end());
  };
  for (const MaxBatchRow& row : answer.rows) {
    add(row.remarks.assumptions, row.remarks.warnings);
    if (row.estimate) add(row.estimate->assumptions, row.estimate->warnings);
  }
  add({}, answer.warnings);
  return {Merged(remarks.assumptions, dash), Merged(remarks.warnings, dash)};
}

std::string RowRemarkLines(std::string_view title, const Warnings& remarks,
                           const TextOptions& options) {
  std::string text;
  for (const Warning& remark : remarks) {
    text += Wrap(remark.code.empty() ? "  - " : fmt::format("  {}  ", remark.code),
                 Clean(remark.text, options.ascii));
  }
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

std::string RowRemarksText(const MaxBatchAnswer& answer, const TextOptions& options) {
  const RowRemarks remarks = RowRemarksOf(answer, GlyphsOf(options).dash);
  return RowRemarkLines("Assumptions", remarks.assumptions, options) +
         RowRemarkLines("Warnings", remarks.warnings, options);
}

std::string WhyNotText(const MaxBatchRow& row, const TextOptions& options) {
  if (row.why_not_largest.empty()) return "";
  return "\nWhy not take the largest\n" + Wrap("  ", Clean(row.why_not_largest, options.ascii));
}

// Of several lines, which a shell reads as one.
std::string RecipeText(const MaxBatchRow& row, const TextOptions& options) {
  if (row.recipe.empty()) return "";
  constexpr size_t kBeforeBackslash = 78;
  std::string text = Wrap("  ", Clean(row.recipe, options.ascii), kBeforeBackslash);
  for (size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 3)) {
    text.replace(at, 1, " \\\n");
  }
  return "\nTo see it\n" + text;
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
  text += RecipeText(answer.rows[0], options);
  return TrimLines(text + RowRemarksText(answer, options));
}

// --- Several ----------------------------------------------------------------------------

// A column of the table, and of which tables it is.
struct BatchColumn {
  std::string_view name;
  char align;
  std::string (*cell)(const MaxBatchRow& row);
  bool (*is_shown)(const MaxBatchAnswer& answer);
};

bool IsAlways(const MaxBatchAnswer& /*answer*/) { return true; }

std::string BatchCell(int64_t batch) { return batch > 0 ? std::to_string(batch) : "none"; }

Judgement JudgementOf(const MaxBatchRow& row) { return RecommendedOf(row.found).judgement; }

// Of what is TIGHT a strict search knows nothing.
constexpr BatchColumn kBatchColumns[] = {
    {"card", 'l', [](const MaxBatchRow& row) { return row.found.target.name; }, IsAlways},
    {"run", 'l', RunOf, [](const MaxBatchAnswer& answer) { return !AreRunsAlike(answer); }},
    {"usable", 'r',
     [](const MaxBatchRow& row) { return FormatBytes(row.found.judgement.usable_bytes); },
     IsAlways},
    {"fits", 'r', [](const MaxBatchRow& row) { return BatchCell(FittingOf(row.found).batch); },
     IsAlways},
    {"runs", 'r', [](const MaxBatchRow& row) { return BatchCell(row.found.batch); },
     [](const MaxBatchAnswer& answer) { return !answer.is_strict; }},
    {"used", 'r', [](const MaxBatchRow& row) { return FormatBytes(JudgementOf(row).used_bytes); },
     IsAlways},
    {"share", 'r',
     [](const MaxBatchRow& row) { return fmt::format("{:.1f}%", 100 * JudgementOf(row).share()); },
     IsAlways},
    {"verdict", 'l', [](const MaxBatchRow& row) { return VerdictWord(JudgementOf(row).verdict); },
     IsAlways},
};
constexpr size_t kRunColumn = 1;

constexpr std::string_view kColumnWords =
    "fits: the batch to take. runs: the largest that runs, TIGHT above what fits.\n"
    "used, share and verdict are of the batch to take, or of the least that fails.\n";

std::string ColumnWordsOf(const MaxBatchAnswer& answer) {
  return answer.is_strict ? "" : "\n" + std::string(kColumnWords);
}

// The table's header and rows; the run has a column where it varies.
std::vector<std::vector<std::string>> TableOf(const MaxBatchAnswer& answer) {
  std::vector<std::vector<std::string>> table(answer.rows.size() + 1);
  for (const BatchColumn& column : kBatchColumns) {
    if (!column.is_shown(answer)) continue;
    table[0].emplace_back(column.name);
    for (size_t i = 0; i < answer.rows.size(); ++i) {
      table[i + 1].push_back(column.cell(answer.rows[i]));
    }
  }
  return table;
}

std::string AlignOf(const MaxBatchAnswer& answer) {
  std::string align;
  for (const BatchColumn& column : kBatchColumns) {
    if (column.is_shown(answer)) align += column.align;
  }
  return align;
}

struct BatchRange {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;

  void Add(int64_t batch) {
    least = std::min(least, batch);
    most = std::max(most, batch);
  }
  bool operator==(const BatchRange&) const = default;
  std::string text() const { return RangeOfBatches(least, most); }
};

// "batch 0 to 80 FITS, 0 to 100 run"; of cards that train together what all of them have room for.
std::string BatchesText(const MaxBatchAnswer& answer) {
  BatchRange fits;
  BatchRange runs;
  if (answer.is_of_ranks) {
    const BatchesOfAll least = LeastOf(answer.rows);
    fits.Add(least.fits);
    runs.Add(least.runs);
  } else {
    for (const MaxBatchRow& row : answer.rows) {
      fits.Add(FittingOf(row.found).batch);
      runs.Add(row.found.batch);
    }
  }
  if (runs.most == 0) return "no batch runs";
  const std::string text =
      fits.most == 0 ? "no batch FITS" : fmt::format("batch {} FITS", fits.text());
  if (fits == runs) return text;
  return fmt::format("{}, {} run{}", text, runs.text(), runs.least == runs.most ? "s" : "");
}

std::string SeveralHeadline(const MaxBatchAnswer& answer) {
  if (answer.is_of_ranks) {
    return fmt::format("{}, on all cards ({} kinds of them)\n", BatchesText(answer),
                       answer.rows.size());
  }
  return fmt::format(
      "{}, by {}\n", BatchesText(answer),
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
    rows[i + 1].back().paint = VerdictPaint(JudgementOf(answer.rows[i]).verdict);
  }
  return rows;
}

// Runs that have no room in a column stand above their rows, whole.
std::string WithRunsApart(const MaxBatchAnswer& answer, CellRows rows, const TextOptions& options) {
  for (std::vector<Cell>& row : rows) row.erase(row.begin() + kRunColumn);
  CutCardNames(rows, GlyphsOf(options));
  const std::string table = Table(rows, AlignOf(answer).erase(kRunColumn, 1), kIndent);
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
  return TrimLines(text + ColumnWordsOf(answer) + RowRemarksText(answer, options));
}

// What a page says of one card beyond its row.
std::string MarkdownItems(const MaxBatchRow& row) {
  std::vector<std::string> items;
  for (const std::string& reason : JudgementOf(row).reasons) items.push_back(reason);
  for (std::string& item : AroundItems(row)) items.push_back(std::move(item));
  for (std::string& item : items) item = MarkdownText(item);
  for (const Advice& advice : row.advice) {
    if (!advice.max_batch) continue;
    items.push_back(fmt::format("{}: up to batch {}; {}", MarkdownCode(advice.flags),
                                *advice.max_batch, MarkdownText(advice.cost)));
  }
  return fmt::format("\n{}", MarkdownList(items));
}

std::string MarkdownRemarks(std::string_view title, const Warnings& remarks) {
  std::vector<std::string> items;
  for (const Warning& remark : remarks) {
    const std::string code = remark.code.empty() ? "" : fmt::format("**{}** ", remark.code);
    items.push_back(code + MarkdownText(remark.text));
  }
  return MarkdownSection(title, MarkdownList(items));
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
  const RowRemarks remarks = RowRemarksOf(answer, kUnicodeGlyphs.dash);
  return fmt::format(
      "Largest batch of {}{}\n\n{}{}{}{}", MarkdownCode(answer.model), MarkdownText(run), table,
      answer.rows.size() == 1 ? MarkdownItems(answer.rows[0]) : ColumnWordsOf(answer),
      MarkdownRemarks("Assumptions", remarks.assumptions),
      MarkdownRemarks("Warnings", remarks.warnings));
}

}  // namespace onnxfit
