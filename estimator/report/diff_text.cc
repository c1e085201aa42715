#include "estimator/report/diff_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/layout.h"
#include "estimator/report/page.h"
#include "estimator/report/verdict_text.h"

namespace onnxfit {
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
  text += MostLine(page) + Sides(page) + Verdicts(page);
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

}  // namespace onnxfit
