// What grew: text, Markdown, comma-separated values, JSON.
#include "estimator/report/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/check_parts.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

bool IsSameWay(int64_t a, int64_t b) { return (a > 0 && b > 0) || (a < 0 && b < 0); }

// The kind that went the same way as `increase` by most.
MostChanged MostChangedKind(const std::vector<ChangedKind>& kinds, int64_t increase) {
  MostChanged most;
  for (const ChangedKind& kind : kinds) {
    const int64_t here = kind.new_bytes - kind.old_bytes;
    if (!IsSameWay(here, increase) || std::abs(here) <= std::abs(most.increase)) continue;
    most = {fmt::format("in {}{}", WithSpaces(kind.kind), kind.kind == "cached" ? " memory" : ""),
            here};
  }
  return most;
}

}  // namespace

std::string SignedBytes(int64_t bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+", FormatBytes(std::abs(bytes)));
}

std::string SignedShare(int64_t increase, int64_t old_bytes) {
  if (old_bytes == 0) return "";
  const double percent = 100 * static_cast<double>(increase) / static_cast<double>(old_bytes);
  return percent > 1000 ? ">1000%" : fmt::format("{:+.1f}%", percent);
}

MostChanged MostChangedOf(const Comparison& comparison) {
  const std::vector<ChangedPlaces>& places = comparison.places;
  const int64_t increase = comparison.increase();
  if (!places.empty() && IsSameWay(places[0].increase(), increase)) {
    const std::string& most = places[0].most_name;
    return {fmt::format("at {}{}{}", NameOf(places[0]), most.empty() ? "" : ", there ", most),
            places[0].increase()};
  }
  return MostChangedKind(comparison.kinds, increase);
}

std::string SettingText(const ChangedSetting& setting) {
  const auto shown = [](const std::string& value) { return value.empty() ? "nothing" : value; };
  return fmt::format("{} was {} and is {}", setting.name, shown(setting.old_value),
                     shown(setting.new_value));
}

std::string NameOf(const ChangedPlaces& places) {
  std::string name = places.name;
  if (!places.old_name.empty()) name = fmt::format("{} -> {}", places.old_name, name);
  return places.names.size() > 1 ? fmt::format("{} ({})", name, places.names.size()) : name;
}

// What follows writes text.
namespace {

constexpr size_t kNameColumns = 48;
constexpr size_t kKindColumns = 24;  // a report may have any

using Rows = std::vector<std::vector<Cell>>;

struct DiffPage {
  const Diff& diff;
  const TextOptions& options;
  const Glyphs& glyphs;

  const Comparison& comparison() const { return diff.comparison; }
  std::string Shown(std::string_view text) const { return Clean(text, options.ascii); }
  std::string_view Paint(std::string_view color) const { return options.color ? color : ""; }
};

std::string_view ColorOf(int64_t increase) {
  return increase > 0 ? kRed : increase < 0 ? kGreen : "";
}

std::string PeakText(const Snapshot& snapshot) {
  std::string text = snapshot.phase.empty() ? "setup" : snapshot.phase;
  if (!snapshot.node.empty()) text += fmt::format(" at {}", snapshot.node);
  return text;
}

std::string Head(const DiffPage& page) {
  const std::string word = page.diff.grew_too_much() ? "FAIL: " : "";
  std::string text = ChangeText(page.comparison());
  if (page.diff.grew_too_much()) text += fmt::format(", {} allowed", page.diff.fail_above->text);
  const std::string lines = page.options.quiet ? word + text + '\n' : Wrap(word, text);
  return Painted({word, page.Paint(kRed)}) + lines.substr(word.size());
}

// What grew most, or shrank most where all together shrank.
std::string MostLine(const DiffPage& page) {
  const MostChanged most = MostChangedOf(page.comparison());
  if (most.where.empty()) return "";
  return Wrap("", page.Shown(fmt::format("most {}: {}", most.where, SignedBytes(most.increase))));
}

std::string Sides(const DiffPage& page) {
  const std::string before = page.Shown(page.comparison().before.model);
  const std::string after = page.Shown(page.comparison().after.model);
  if (before == after) return Wrap("", after);
  return Wrap("", fmt::format("{} {} {}", before, page.glyphs.arrow, after));
}

std::string Verdicts(const DiffPage& page) {
  std::string text;
  for (size_t i = 0; i < page.diff.after.size(); ++i) {
    const Verdict before = page.diff.before[i].judgement.verdict;
    const std::string line = VerdictLine(page.diff.after[i], page.options);
    text += line;
    const bool changed = before != page.diff.after[i].judgement.verdict;
    if (changed) text += fmt::format("  was {} before\n", VerdictWord(before));
  }
  return text;
}

std::vector<Cell> KindRow(const DiffPage& page, const std::string& name, int64_t old_bytes,
                          int64_t new_bytes) {
  const int64_t increase = new_bytes - old_bytes;
  return {{CutMiddle(page.Shown(WithSpaces(name)), kKindColumns, page.glyphs.ellipsis)},
          {FormatBytes(old_bytes)},
          {FormatBytes(new_bytes)},
          {increase == 0 ? "same" : SignedBytes(increase), page.Paint(ColorOf(increase))}};
}

std::string Kinds(const DiffPage& page) {
  Rows rows = {{{"by kind"}, {"before"}, {"after"}, {"change"}}};
  for (const ChangedKind& kind : page.comparison().kinds) {
    if (kind.old_bytes == 0 && kind.new_bytes == 0) continue;
    rows.push_back(KindRow(page, kind.kind, kind.old_bytes, kind.new_bytes));
  }
  rows.push_back(KindRow(page, "device", page.comparison().before.device_bytes,
                         page.comparison().after.device_bytes));
  return '\n' + Table(rows, "lrrr", "");
}

std::string Places(const DiffPage& page) {
  const std::vector<ChangedPlaces>& places = page.comparison().places;
  if (!page.comparison().has_places) {
    return "\nby node: one side is a report that does not have them\n";
  }
  if (places.empty()) return "";
  Rows rows = {{{"by node"}, {""}, {"change"}}};
  for (size_t i = 0; i < std::min(places.size(), page.options.rows); ++i) {
    const ChangedPlaces& shown = places[i];
    rows.push_back({{CutMiddle(page.Shown(NameOf(shown)), kNameColumns, page.glyphs.ellipsis)},
                    {std::string(ToString(shown.change))},
                    {SignedBytes(shown.increase()), page.Paint(ColorOf(shown.increase()))}});
  }
  std::string text = '\n' + Table(rows, "llr", "");
  if (places.size() > page.options.rows) {
    text += fmt::format("and {} more (-n {} shows all)\n", places.size() - page.options.rows,
                        places.size());
  }
  return text;
}

std::string Notes(const DiffPage& page) {
  std::string text;
  const std::string moved = MovedText(page.comparison());
  if (!moved.empty()) text += Wrap("", page.Shown(moved));
  const std::string taken = TakenText(page.diff);
  if (!taken.empty()) text += Wrap("", page.Shown(taken));
  for (const ChangedSetting& setting : page.comparison().settings) {
    text += Wrap("", page.Shown(SettingText(setting)));
  }
  if (page.comparison().before.version != page.comparison().after.version) {
    text += Wrap("", page.Shown(fmt::format("the two are answers of onnxfit {} and {}",
                                            page.comparison().before.version,
                                            page.comparison().after.version)));
  }
  return text.empty() ? "" : '\n' + text;
}

}  // namespace

std::string ToText(const Diff& diff, const TextOptions& options) {
  const DiffPage page = {diff, options, GlyphsOf(options)};
  std::string text = Head(page);
  if (options.quiet) return text;
  text += MostLine(page) + Verdicts(page) + Sides(page);
  text += Kinds(page) + Places(page) + Notes(page);
  return TrimLines(text);
}

std::string ChangeText(const Comparison& comparison) {
  const int64_t increase = comparison.increase();
  if (increase == 0) {
    return fmt::format("takes {}, as before", FormatBytes(comparison.after.device_bytes));
  }
  const std::string share = SignedShare(increase, comparison.before.device_bytes);
  return fmt::format(
      "{} by {}{}, from {} to {}", increase > 0 ? "grew" : "shrank",
      FormatBytes(std::abs(increase)), share.empty() ? "" : fmt::format(" ({})", share),
      FormatBytes(comparison.before.device_bytes), FormatBytes(comparison.after.device_bytes));
}

std::string TakenText(const Diff& diff) {
  if (diff.taken.empty()) return "";
  return fmt::format("the model is asked what the report was: {}", fmt::join(diff.taken, ", "));
}

std::string MovedText(const Comparison& comparison) {
  if (!comparison.peak_moved) return "";
  const bool has_other = std::any_of(
      comparison.places.begin(), comparison.places.end(), [](const ChangedPlaces& places) {
        return places.change == PlaceChange::kAdded || places.change == PlaceChange::kRemoved;
      });
  return fmt::format(
      "the peak moved from {} to {}{}", PeakText(comparison.before), PeakText(comparison.after),
      has_other ? "; what is added or removed may be alive at one of them alone" : "");
}

// What follows writes Markdown, then comma-separated values and JSON.
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

std::string ToCsv(const Diff& diff) {
  std::string text =
      CsvLine({"name", "old_name", "change", "op", "count", "old_bytes", "new_bytes"});
  for (const ChangedKind& kind : diff.comparison.kinds) {
    text += CsvLine({kind.kind, "", "kind", "", "", fmt::format("{}", kind.old_bytes),
                     fmt::format("{}", kind.new_bytes)});
  }
  for (const ChangedPlaces& places : diff.comparison.places) {
    text += CsvLine({places.name, places.old_name, std::string(ToString(places.change)), places.op,
                     fmt::format("{}", places.names.size()), fmt::format("{}", places.old_bytes),
                     fmt::format("{}", places.new_bytes)});
  }
  return text;
}

Json DiffJson(const Diff& diff, const JsonOptions& options) {
  Json report = {{"schema", 1}, {"version", options.version}};
  report.update(ComparisonJson(diff.comparison));
  if (diff.fail_above) report["grew_too_much"] = diff.grew_too_much();
  if (!diff.taken.empty()) report["taken_flags"] = diff.taken;
  for (size_t i = 0; i < diff.after.size(); ++i) {
    report["targets"].push_back(
        {{"old", TargetJson(diff.before[i])}, {"new", TargetJson(diff.after[i])}});
  }
  return report;
}

std::string ToJson(const Diff& diff, const JsonOptions& options) {
  return Dumped(DiffJson(diff, options)) + '\n';
}

}  // namespace onnxfit
