#include "estimator/report/length_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

using Rows = std::vector<std::vector<Cell>>;

// 1, 2, 5, 10, 20 … and the last.
std::vector<int64_t> ShownSteps(int64_t steps) {
  std::vector<int64_t> shown;
  for (int64_t decade = 1; decade <= steps; decade *= 10) {
    for (const int64_t step : {decade, 2 * decade, 5 * decade}) {
      if (step < steps) shown.push_back(step);
    }
  }
  shown.push_back(steps);
  return shown;
}

std::string SourceText(const LengthSeries& series) {
  const LengthOptions& asked = series.asked;
  std::string text = fmt::format("{} from {} to {}, {} that differ", series.dim, series.shortest,
                                 series.longest, series.different);
  if (asked.of_samples) text += ", each the longest sample's of a batch";
  if (asked.pad_to > 1) text += fmt::format(", padded to a multiple of {}", asked.pad_to);
  return text;
}

std::string SettingsText(const LengthSeries& series) {
  const std::string mode = series.settings.mode == Mode::kEval
                               ? "inference"
                               : std::string(ToString(series.settings.optimizer));
  return fmt::format("{}, batch {}, {}, {}", series.model, series.batch,
                     ToString(series.settings.precision), mode);
}

std::string CurveText(const LengthSeries& series) {
  const bool is_drawn = series.asked.source.list.empty();
  const std::string whose =
      is_drawn ? fmt::format("the worst of {} seeds", series.asked.seeds) : "the file's lengths";
  std::string text = fmt::format("\nOn a card that is never full, {}\n", whose);
  Rows rows = {{{"step"}, {series.dim}, {"allocated at most"}, {"reserved behind it"}}};
  for (const int64_t step : ShownSteps(static_cast<int64_t>(series.endless.steps.size()))) {
    const SeriesRun::Step& at = series.endless.steps[Index(step - 1)];
    rows.push_back({{std::to_string(step)},
                    {std::to_string(series.lengths[Index(step - 1)])},
                    {FormatBytes(at.peak_allocated_bytes)},
                    {FormatBytes(at.reserved_bytes)}});
  }
  return text + Table(rows, "rrrr", "  ");
}

std::string MostText(const LengthSeries& series) {
  const int64_t most = series.endless.peak_reserved_bytes;
  Rows rows = {{{FormatBytes(series.endless.peak_allocated_bytes)}, {"allocated"}},
               {{FormatBytes(most)}, {"reserved"}}};
  if (series.least_reserved_bytes < most) {
    rows.push_back(
        {{FormatBytes(series.least_reserved_bytes)}, {"the same, of the seed with the least"}});
  }
  rows.push_back({{FormatBytes(series.alike_bytes)},
                  {fmt::format("reserved where all batches have {}", series.longest)}});
  return "\nAt most\n" + Table(rows, "rl", "  ");
}

std::string ChangesText(const LengthSeries& series) {
  if (series.changes.empty()) return "";
  Rows rows;
  for (const SeriesChange& change : series.changes) {
    std::string what = change.what;
    if (change.more_tokens > 0)
      what += fmt::format(", {:.1f}% more tokens", 100 * change.more_tokens);
    rows.push_back({{FormatBytes(change.reserved_bytes)}, {change.flags}, {what}});
  }
  return "\nWhat would be reserved with these lengths and\n" + Table(rows, "rll", "  ");
}

std::string OpenText(const LengthSeries& series) {
  std::string text;
  if (!series.reading.empty()) {
    text += Wrap("  - ", "the file leaves something open; this is the worse: " + series.reading);
  }
  for (const Warning& warning : series.warnings) text += Wrap("  - ", warning.text);
  return text.empty() ? "" : "\nWhat stays open\n" + text;
}

Json CardJson(const SeriesOnCard& card) {
  Json json = TargetJson(card.judged);
  if (card.dies > 0) {
    json["seeds_die"] = card.dies;
    json["first_death"] = card.first_death;
  }
  if (card.retries > 0) {
    json["seeds_retry"] = card.retries;
    json["first_retry"] = card.first_retry;
  }
  return json;
}

Json ChangeJson(const SeriesChange& change) {
  Json json = {{"what", change.what}, {"reserved_bytes", change.reserved_bytes}};
  PutIfKnown(json, "flags", change.flags);
  if (change.more_tokens > 0) json["more_tokens"] = change.more_tokens;
  return json;
}

void PutSteps(const LengthSeries& series, Json& json) {
  json["lengths"] = series.lengths;
  for (const char* name : {"reserved_bytes", "peak_allocated_bytes"}) json[name] = Json::array();
  for (const SeriesRun::Step& step : series.endless.steps) {
    json["reserved_bytes"].push_back(step.reserved_bytes);
    json["peak_allocated_bytes"].push_back(step.peak_allocated_bytes);
  }
}

}  // namespace

std::string ToText(const LengthSeries& series, const TextOptions& options) {
  std::string text;
  for (const SeriesOnCard& card : series.cards) {
    text += VerdictLine(card.judged, options);
    if (!options.quiet) text += VerdictDetails(card.judged, options);
  }
  if (options.quiet && !series.cards.empty()) return text;
  text += Wrap("", SettingsText(series)) + Wrap("", SourceText(series));
  return TrimLines(text + CurveText(series) + MostText(series) + ChangesText(series) +
                   OpenText(series));
}

std::string ToJson(const LengthSeries& series, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"text", ToText(series)},
               {"model", series.model},
               {"dim", series.dim},
               {"batch", series.batch},
               {"steps", series.endless.steps.size()},
               {"shortest", series.shortest},
               {"longest", series.longest},
               {"different", series.different},
               {"worst_seed", series.worst_seed},
               {"least_reserved_bytes", series.least_reserved_bytes},
               {"most_reserved_bytes", series.endless.peak_reserved_bytes},
               {"alike_bytes", series.alike_bytes},
               {"changes", Json::array()},
               {"targets", Json::array()},
               {"warnings", Json::array()}};
  PutSteps(series, json);
  PutIfKnown(json, "reading", series.reading);
  for (const SeriesChange& change : series.changes) json["changes"].push_back(ChangeJson(change));
  for (const SeriesOnCard& card : series.cards) json["targets"].push_back(CardJson(card));
  for (const Warning& warning : series.warnings) json["warnings"].push_back(warning.text);
  return Dumped(json) + '\n';
}

}  // namespace onnxfit
