#include "estimator/report/advice_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/page.h"
#include "estimator/report/verdict_text.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestFlags = 40;  // wider ones get a line of their own

std::string BatchText(const Advice& advice, const Glyphs& glyphs) {
  if (advice.accumulate == 1) return fmt::format("up to batch {}", *advice.max_batch);
  return fmt::format("{} {} {} a step", advice.accumulate, glyphs.times, *advice.max_batch);
}

// "FITS  10.2 GiB, saves 9.60 GiB", "batch 480".
std::string GainText(const Advice& advice, const TextOptions& options) {
  if (advice.max_batch) return BatchText(advice, GlyphsOf(options));
  if (!advice.judgement) return "";
  const Verdict verdict = advice.judgement->verdict;
  const std::string_view paint = options.color ? VerdictPaint(verdict) : "";
  std::string text = PadRight(VerdictWord(verdict), 5);
  text.replace(0, VerdictWord(verdict).size(), Painted({VerdictWord(verdict), paint}));
  text += "  " + FormatBytes(advice.judgement->used_bytes);
  if (advice.saved_bytes > 0) text += fmt::format(", saves {}", FormatBytes(advice.saved_bytes));
  return text;
}

std::string Entry(const Advice& advice, size_t width, const TextOptions& options) {
  const std::string flags = Clean(advice.flags, options.ascii);
  const std::string gain = GainText(advice, options);
  std::string text;
  if (Columns(flags) <= width) {
    text = fmt::format("{}{}  {}\n", kIndent, PadRight(flags, width), gain);
  } else {
    text = Wrap(kIndent, flags) + fmt::format("{}{}  {}\n", kIndent, std::string(width, ' '), gain);
  }
  const std::string cost = fmt::format("{}: {}", advice.change, advice.cost);
  return text + Wrap("      ", Clean(cost, options.ascii));
}

std::string Sentence(const Advice& advice, const TextOptions& options) {
  const std::string text =
      advice.cost.empty() || !advice.flags.empty() ? advice.why : advice.why + "; " + advice.cost;
  return Wrap("  - ", Clean(text, options.ascii));
}

size_t WidestFlags(const std::vector<Advice>& advice) {
  size_t widest = 0;
  for (const Advice& a : advice) {
    const size_t columns = Columns(a.flags);
    if (a.why.empty() && columns <= kWidestFlags) widest = std::max(widest, columns);
  }
  return widest;
}

}  // namespace

std::string AdviceText(const std::vector<Advice>& advice, const TextOptions& options) {
  if (advice.empty()) return "";
  const bool raises = std::any_of(advice.begin(), advice.end(),
                                  [](const Advice& a) { return a.max_batch.has_value(); });
  std::string text = raises ? "\nWhat would raise it\n" : "\nWhat would make it fit\n";
  const size_t width = WidestFlags(advice);
  std::string sentences;
  size_t shown = 0;
  for (const Advice& a : advice) {
    if (!a.why.empty()) {
      sentences += Sentence(a, options);
    } else if (shown++ < options.rows) {
      text += Entry(a, width, options);
    }
  }
  return TrimLines(text + sentences);
}

}  // namespace onnxfit
