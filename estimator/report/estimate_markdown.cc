#include "estimator/report/estimate_markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate_rows.h"
#include "estimator/report/layout.h"
#include "estimator/report/markdown.h"
#include "estimator/report/page.h"
#include "estimator/report/settings_text.h"
#include "estimator/report/verdict_text.h"
#include "estimator/report/why_text.h"

namespace onnxfit {
namespace {

using MarkdownRows = std::vector<std::vector<std::string>>;

std::string Escaped(const Page& page, std::string_view text) {
  return MarkdownText(page.Shown(text));
}

std::string Code(const Page& page, std::string_view name) { return MarkdownCode(page.Shown(name)); }

std::string HeadlineMarkdown(const Page& page) {
  const Estimate& estimate = page.estimate;
  const std::string total =
      IsTotalOfTargets(estimate)
          ? fmt::format("**{} on the device**: ", FormatBytes(estimate.device_bytes))
          : "";
  return fmt::format("{}{}, {}\n", total, Code(page, estimate.model.path),
                     Escaped(page, SettingsText(estimate)));
}

std::vector<std::string> VerdictItems(const Page& page, const JudgedTarget& judged) {
  std::vector<std::string> items;
  const Judgement& judgement = judged.judgement;
  if (judgement.fails_at) items.push_back(Escaped(page, FailureText(*judgement.fails_at)));
  for (const std::string& reason : judgement.reasons) items.push_back(Escaped(page, reason));
  return items;
}

// What would make it fit, as code that can be typed.
std::vector<std::string> AdviceItems(const Page& page, const JudgedTarget& judged) {
  std::vector<std::string> items;
  for (const Advice& advice : judged.advice) {
    if (advice.effect != Effect::kEnough) continue;
    items.push_back(fmt::format("{}: {}", Code(page, advice.flags), Escaped(page, advice.cost)));
  }
  return items;
}

// The answer to "does it fit?", where a card was named.
std::string VerdictsMarkdown(const Page& page) {
  std::string text;
  for (const JudgedTarget& judged : page.estimate.targets) {
    text += fmt::format("**{}** on {}: {}\n\n", VerdictWord(judged.judgement.verdict),
                        Code(page, judged.target.name), UsedText(judged.judgement, page.glyphs));
    if (page.options.quiet) continue;
    const std::vector<std::string> items = VerdictItems(page, judged);
    if (!items.empty()) text += MarkdownList(items) + '\n';
    const std::vector<std::string> advice = AdviceItems(page, judged);
    if (!advice.empty()) text += "It would fit with\n\n" + MarkdownList(advice) + '\n';
  }
  return text;
}

std::string ChangesLineMarkdown(const Page& page) {
  const std::string text = ChangesText(page.estimate);
  return text.empty() ? "" : fmt::format("\nwith {}\n", Escaped(page, text));
}

std::string BreakdownMarkdown(const Page& page) {
  const std::vector<BreakdownRow> rows = ShownBreakdown(page.estimate);
  if (rows.empty()) return "";
  const std::vector<std::string> shares = SharesOf(rows, page.estimate.device_bytes);
  MarkdownRows cells;
  for (size_t i = 0; i < rows.size(); ++i) {
    cells.push_back({Escaped(page, WithSpaces(rows[i].kind)), FormatBytes(rows[i].bytes), shares[i],
                     std::string(ToString(rows[i].basis)), RangeText(rows[i], page.glyphs.dash)});
  }
  cells.push_back(
      {"**total**", fmt::format("**{}**", FormatBytes(page.estimate.device_bytes)), "100.0%"});
  return MarkdownSection(
      BreakdownTitle(page.estimate),
      MarkdownTable({"kind", "bytes", "share", "basis", "range"}, "lrrll", cells));
}

std::string TotalsMarkdown(const Page& page) {
  const Estimate& estimate = page.estimate;
  std::string text = '\n' + NvidiaSmiText(estimate);
  if (estimate.peak_step == 0) return text + '\n';
  text += fmt::format(" The peak is in step {}, {}", estimate.peak_step,
                      Escaped(page, estimate.peak_phase));
  if (!estimate.peak_node.empty()) text += ", at " + Code(page, estimate.peak_node);
  return text + ".\n";
}

std::string StepsMarkdown(const Page& page) {
  if (page.estimate.steps.empty()) return "";
  MarkdownRows rows = StepRows(page.estimate);
  const std::vector<std::string> header = rows[0];
  rows.erase(rows.begin());
  return MarkdownSection("Step by step",
                         MarkdownTable(header, std::string(header.size(), 'r'), rows));
}

std::string LargestMarkdown(const Page& page) {
  MarkdownRows cells;
  for (const TensorGroup& group : Groups(page.estimate.largest, page.options.rows)) {
    const LargeTensor& tensor = *group.tensor;
    cells.push_back({SizeText(group, page.glyphs.times), Code(page, ToString(tensor.type)),
                     Code(page, tensor.name), WithSpaces(ToString(tensor.kind)),
                     tensor.born.empty() ? "setup" : Code(page, tensor.born),
                     tensor.dies.empty() ? "end" : Code(page, tensor.dies)});
  }
  if (cells.empty()) return "";
  return MarkdownSection(
      "Largest tensors at the peak",
      MarkdownTable({"bytes", "type", "name", "kind", "from", "to"}, "rlllll", cells));
}

std::string BulletsMarkdown(const Page& page, std::string_view title,
                            const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const std::string& text : texts) items.push_back(Escaped(page, text));
  return MarkdownSection(title, MarkdownList(items));
}

std::string WarningItems(const Page& page) {
  std::vector<std::string> items;
  for (const Warning& warning : page.estimate.warnings) {
    items.push_back(
        fmt::format("**{}** {}", Escaped(page, warning.code), Escaped(page, warning.text)));
  }
  return MarkdownSection("Warnings", MarkdownList(items));
}

std::string StepEventsMarkdown(const Page& page) {
  std::vector<std::string> items;
  for (const StepSummary& step : page.estimate.step_events) {
    items.push_back(fmt::format("step {}: {} allocations, {} frees, the largest {}, {}",
                                step.peak.step, step.allocations, step.frees,
                                FormatBytes(step.largest_bytes), Code(page, step.largest)));
  }
  return MarkdownSection("Events", MarkdownList(items));
}

std::string Why(const Page& page) {
  const std::string told = TrimLines(WhyText(page, *page.estimate.why));
  return '\n' + MarkdownBlock(told.substr(std::min(told.find_first_not_of('\n'), told.size())));
}

}  // namespace

std::string ToMarkdown(const Estimate& estimate, const TextOptions& options) {
  TextOptions plain = options;
  plain.color = false;
  const Page page = {estimate, plain, GlyphsOf(options)};
  const std::string verdicts = VerdictsMarkdown(page);
  if (options.quiet && !verdicts.empty()) return verdicts;
  std::string text = verdicts + HeadlineMarkdown(page);
  if (options.quiet) return text;
  text += ChangesLineMarkdown(page);
  if (estimate.why) {
    text += TotalsMarkdown(page) + Why(page);
  } else {
    text += BreakdownMarkdown(page) + TotalsMarkdown(page) + StepsMarkdown(page) +
            LargestMarkdown(page) + BulletsMarkdown(page, "Assumptions", estimate.assumptions);
  }
  text += WarningItems(page);
  if (options.verbose) {
    text += BulletsMarkdown(page, "Details", DetailLines(estimate)) + StepEventsMarkdown(page) +
            BulletsMarkdown(page, "Notes", estimate.notes);
  }
  return text;
}

}  // namespace onnxfit
