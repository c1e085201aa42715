#include "estimator/report/max_batch_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/csv.h"
#include "estimator/report/markdown.h"
#include "estimator/report/settings_text.h"
#include "estimator/report/verdict_text.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestName = 30;
constexpr size_t kShownLuckier = 8;

const Glyphs& GlyphsOf(const TextOptions& options) {
  return options.ascii ? kAsciiGlyphs : kUnicodeGlyphs;
}

std::string RunLine(const MaxBatchAnswer& answer, const TextOptions& options) {
  const std::string run = ", " + RunText(answer.settings, answer.dims);
  const std::string changes = ChangesText(answer.settings, answer.alloc_conf);
  const std::string model =
      CutMiddle(Clean(answer.model, options.ascii),
                kReportColumns - std::min<size_t>(Columns(run), 40), GlyphsOf(options).ellipsis);
  std::string text = Wrap("", Clean(model + run, options.ascii));
  if (!changes.empty()) text += Wrap("with ", Clean(changes, options.ascii));
  return text;
}

// --- One card ---------------------------------------------------------------------------

std::string BatchText(const MaxBatch& answer) {
  return answer.batch == 0 ? "no batch fits" : fmt::format("batch {}", answer.batch);
}

std::string Headline(const MaxBatch& answer, const TextOptions& options) {
  const Verdict verdict = answer.judgement.verdict;
  const std::string name =
      CutMiddle(Clean(answer.target.name, options.ascii), kWidestName, GlyphsOf(options).ellipsis);
  if (answer.batch == 0) {
    return fmt::format(
        "{} on {}, not even batch 1: {} of {}\n", Painted({"OOM", options.color ? kRed : ""}), name,
        FormatBytes(answer.judgement.used_bytes), FormatBytes(answer.judgement.usable_bytes));
  }
  const std::string_view paint = options.color ? VerdictPaint(verdict) : "";
  return fmt::format("{} on {}: {}, {} of {}, {:.1f}%\n", BatchText(answer), name,
                     Painted({VerdictWord(verdict), paint}),
                     FormatBytes(answer.judgement.used_bytes),
                     FormatBytes(answer.judgement.usable_bytes), 100 * answer.judgement.share());
}

std::string RangeOfBatches(int64_t first, int64_t last) {
  return first == last ? std::to_string(first) : fmt::format("{} to {}", first, last);
}

std::string NextText(const MaxBatch& answer) {
  const BatchOutcome& next = *answer.next;
  std::string text;
  if (answer.batch > 0) {
    const int64_t first = answer.batch - answer.batch / 50;
    text = fmt::format("{} run{}; ", RangeOfBatches(first, next.batch - 1),
                       first == next.batch - 1 ? "s" : "");
  }
  text += std::to_string(next.batch) + " ";
  if (next.judgement.fails_at) return text + FailureText(*next.judgement.fails_at);
  return text +
         (next.judgement.reasons.empty() ? "fits" : "is tight: " + next.judgement.reasons[0]);
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

std::string AroundText(const MaxBatch& answer, const TextOptions& options) {
  std::string text = "\nAround it\n";
  const auto add = [&](std::string_view line) { text += Wrap("  - ", Clean(line, options.ascii)); };
  if (answer.is_limited) add("larger ones run, too: --max ends it");
  if (answer.next) add(NextText(answer));
  if (!answer.luckier.empty()) add(LuckierText(answer));
  add(fmt::format("tensors take about {} + {} a sample", FormatBytes(answer.fixed_bytes),
                  FormatBytes(answer.per_sample_bytes)));
  return text;
}

std::string WarningLines(const MaxBatch& answer, const TextOptions& options) {
  if (!answer.estimate) return "";
  std::string text;
  for (const Warning& warning : answer.estimate->warnings) {
    text += Wrap(fmt::format("  {}  ", warning.code), Clean(warning.text, options.ascii));
  }
  return text.empty() ? "" : "\nWarnings\n" + text;
}

std::string OneCard(const MaxBatchAnswer& answer, const TextOptions& options) {
  const MaxBatch& target = answer.targets[0];
  std::string text = Headline(target, options);
  if (options.quiet) return text;
  text += RunLine(answer, options) + VerdictDetails({target.target, target.judgement}, options);
  return text + AroundText(target, options) + WarningLines(target, options);
}

// --- Several ----------------------------------------------------------------------------

std::vector<std::string> RowOf(const MaxBatch& answer) {
  return {answer.target.name,
          FormatBytes(answer.judgement.usable_bytes),
          std::to_string(answer.batch),
          FormatBytes(answer.judgement.used_bytes),
          fmt::format("{:.1f}%", 100 * answer.judgement.share()),
          VerdictWord(answer.judgement.verdict)};
}

const std::vector<std::string> kHeader = {"card", "usable", "batch", "used", "share", "verdict"};
constexpr std::string_view kAlign = "lrrrrl";

std::string SeveralHeadline(const MaxBatchAnswer& answer) {
  const auto [least, most] =
      std::minmax_element(answer.targets.begin(), answer.targets.end(),
                          [](const MaxBatch& a, const MaxBatch& b) { return a.batch < b.batch; });
  return fmt::format("batch {} to {} on {} cards\n", least->batch, most->batch,
                     answer.targets.size());
}

std::string SeveralCards(const MaxBatchAnswer& answer, const TextOptions& options) {
  std::string text = SeveralHeadline(answer);
  if (options.quiet) return text;
  std::vector<std::vector<Cell>> cells(1);
  for (const std::string& title : kHeader) cells[0].push_back({title});
  for (const MaxBatch& target : answer.targets) {
    std::vector<Cell>& row = cells.emplace_back();
    for (const std::string& cell : RowOf(target)) {
      row.push_back(
          {CutMiddle(Clean(cell, options.ascii), kWidestName, GlyphsOf(options).ellipsis)});
    }
    if (options.color) row.back().paint = VerdictPaint(target.judgement.verdict);
  }
  return text + RunLine(answer, options) + "\n" + TrimLines(Table(cells, kAlign, "  "));
}

}  // namespace

std::string ToText(const MaxBatchAnswer& answer, const TextOptions& options) {
  return answer.targets.size() == 1 ? OneCard(answer, options) : SeveralCards(answer, options);
}

std::string ToMarkdown(const MaxBatchAnswer& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const MaxBatch& target : answer.targets) {
    std::vector<std::string> row = RowOf(target);
    row[0] = MarkdownText(row[0]);
    rows.push_back(std::move(row));
  }
  const std::string run = RunText(answer.settings, answer.dims);
  return fmt::format("Largest batch of {}, {}\n\n{}", MarkdownCode(answer.model), MarkdownText(run),
                     MarkdownTable(kHeader, kAlign, rows));
}

std::string ToCsv(const MaxBatchAnswer& answer) {
  std::string text = CsvLine({"model", "precision", "optimizer", "mode", "gpu", "memory_bytes",
                              "max_batch", "used_bytes", "verdict"});
  for (const MaxBatch& target : answer.targets) {
    text += CsvLine({answer.model, std::string(ToString(answer.settings.precision)),
                     std::string(ToString(answer.settings.optimizer)),
                     std::string(ToString(answer.settings.mode)), target.target.name,
                     std::to_string(target.judgement.usable_bytes), std::to_string(target.batch),
                     std::to_string(target.judgement.used_bytes),
                     std::string(ToString(target.judgement.verdict))});
  }
  return text;
}

}  // namespace onnxfit
