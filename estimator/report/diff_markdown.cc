#include "estimator/report/diff_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/diff_text.h"
#include "estimator/report/layout.h"
#include "estimator/report/markdown.h"
#include "estimator/report/page.h"
#include "estimator/report/verdict_text.h"

namespace onnxfit {
namespace {

using MarkdownRows = std::vector<std::vector<std::string>>;

std::string ChangeCell(int64_t increase) { return increase == 0 ? "" : SignedBytes(increase); }

std::string Kinds(const Comparison& comparison, const TextOptions& options) {
  MarkdownRows rows;
  for (const ChangedKind& kind : comparison.kinds) {
    if (kind.old_bytes == 0 && kind.new_bytes == 0) continue;
    rows.push_back({MarkdownText(Clean(WithSpaces(kind.kind), options.ascii)),
                    FormatBytes(kind.old_bytes), FormatBytes(kind.new_bytes),
                    ChangeCell(kind.new_bytes - kind.old_bytes)});
  }
  return MarkdownTable({"by kind", "before", "after", "change"}, "lrrr", rows);
}

std::string Places(const Comparison& comparison, const TextOptions& options) {
  if (comparison.places.empty()) return "";
  MarkdownRows rows;
  for (size_t i = 0; i < std::min(comparison.places.size(), options.rows); ++i) {
    const ChangedPlaces& places = comparison.places[i];
    rows.push_back({MarkdownCode(Clean(NameOf(places), options.ascii)),
                    std::string(ToString(places.change)), ChangeCell(places.increase())});
  }
  std::string text = '\n' + MarkdownTable({"by node", "", "change"}, "llr", rows);
  if (comparison.places.size() > options.rows) {
    text += fmt::format("\nand {} more\n", comparison.places.size() - options.rows);
  }
  return text;
}

std::string Notes(const Diff& diff, const TextOptions& options) {
  const Comparison& comparison = diff.comparison;
  std::vector<std::string> items;
  if (const std::string taken = TakenText(diff); !taken.empty()) items.push_back(taken);
  const std::string moved = MovedText(comparison);
  if (!moved.empty()) items.push_back(moved);
  for (const ChangedSetting& setting : comparison.settings) items.push_back(SettingText(setting));
  for (std::string& item : items) item = MarkdownText(Clean(item, options.ascii));
  return items.empty() ? "" : '\n' + MarkdownList(items);
}

std::string Verdicts(const Diff& diff) {
  std::string text;
  for (size_t i = 0; i < diff.after.size(); ++i) {
    text += fmt::format("{}: {}, was {}\n\n", MarkdownCode(diff.after[i].target.name),
                        VerdictWord(diff.after[i].judgement.verdict),
                        VerdictWord(diff.before[i].judgement.verdict));
  }
  return text;
}

}  // namespace

std::string ToMarkdown(const Diff& diff, const TextOptions& options) {
  const Comparison& comparison = diff.comparison;
  const std::string before = MarkdownCode(Clean(comparison.before.model, options.ascii));
  const std::string after = MarkdownCode(Clean(comparison.after.model, options.ascii));
  std::string text =
      fmt::format("**{}{}**: {}\n", diff.grew_too_much() ? "FAIL: " : "", ChangeText(comparison),
                  before == after ? after : fmt::format("{} to {}", before, after));
  if (options.quiet) return text;
  return text + '\n' + Verdicts(diff) + Kinds(comparison, options) + Places(comparison, options) +
         Notes(diff, options);
}

}  // namespace onnxfit
