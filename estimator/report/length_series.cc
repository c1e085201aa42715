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

bool HasBatches(const LengthSeries& series) { return series.smallest_batch < series.batch; }

std::string BatchText(const LengthSeries& series) {
  if (!HasBatches(series)) return std::to_string(series.batch);
  const std::string range = fmt::format("{} to {}", series.smallest_batch, series.batch);
  const int64_t tokens = series.asked.tokens;
  return tokens > 0 ? fmt::format("{} (as many as {} tokens have room for)", range, tokens) : range;
}

std::string SettingsText(const LengthSeries& series) {
  const std::string mode = series.settings.mode == Mode::kEval
                               ? "inference"
                               : std::string(ToString(series.settings.optimizer));
  return fmt::format("{}, batch {}, {}, {}", series.model, BatchText(series),
                     ToString(series.settings.precision), mode);
}

std::string CurveText(const LengthSeries& series) {
  const bool is_drawn = series.asked.source.list.empty();
  const std::string whose =
      is_drawn ? fmt::format("the worst of {} seeds", series.asked.seeds) : "the file's lengths";
  std::string text = fmt::format("\nOn a card that is never full, {}\n", whose);
  Rows rows = {{{"step"}, {series.dim}, {"allocated at most"}, {"reserved behind it"}}};
  if (HasBatches(series)) rows[0].insert(rows[0].begin() + 1, {"batch"});
  for (const int64_t step : ShownSteps(static_cast<int64_t>(series.endless.steps.size()))) {
    const StepShape& shape = series.shapes[Index(step - 1)];
    const SeriesRun::Step& at = series.endless.steps[Index(step - 1)];
    rows.push_back({{std::to_string(step)},
                    {std::to_string(shape.length)},
                    {FormatBytes(at.peak_allocated_bytes)},
                    {FormatBytes(at.reserved_bytes)}});
    if (HasBatches(series))
      rows.back().insert(rows.back().begin() + 1, {std::to_string(shape.batch)});
  }
  return text + Table(rows, HasBatches(series) ? "rrrrr" : "rrrr", "  ");
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
                  {series.asked.tokens > 0
                       ? "reserved where all batches are the largest"
                       : fmt::format("reserved where all batches have {}", series.longest)}});
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
  json["lengths"] = Json::array();
  for (const StepShape& shape : series.shapes) {
    json["lengths"].push_back(shape.length);
    if (HasBatches(series)) json["batches"].push_back(shape.batch);
  }
  for (const char* name : {"reserved_bytes", "peak_allocated_bytes"}) json[name] = Json::array();
  for (const SeriesRun::Step& step : series.endless.steps) {
    json["reserved_bytes"].push_back(step.reserved_bytes);
    json["peak_allocated_bytes"].push_back(step.peak_allocated_bytes);
  }
}

// Without the lines of cards.
std::string TextOfSeries(const LengthSeries& series) {
  return Wrap("", SettingsText(series)) + Wrap("", SourceText(series)) + CurveText(series) +
         MostText(series) + ChangesText(series) + OpenText(series);
}

void PutSeries(const LengthSeries& series, Json& json) {
  json["model"] = series.model;
  json["dim"] = series.dim;
  json["batch"] = series.batch;
  json["smallest_batch"] = series.smallest_batch;
  json["steps"] = series.endless.steps.size();
  json["shortest"] = series.shortest;
  json["longest"] = series.longest;
  json["different"] = series.different;
  json["worst_seed"] = series.worst_seed;
  json["least_reserved_bytes"] = series.least_reserved_bytes;
  json["most_reserved_bytes"] = series.endless.peak_reserved_bytes;
  json["alike_bytes"] = series.alike_bytes;
  for (const char* name : {"changes", "targets", "warnings"}) json[name] = Json::array();
  PutSteps(series, json);
  PutIfKnown(json, "reading", series.reading);
  for (const SeriesChange& change : series.changes) json["changes"].push_back(ChangeJson(change));
  for (const SeriesOnCard& card : series.cards) json["targets"].push_back(CardJson(card));
  for (const Warning& warning : series.warnings) json["warnings"].push_back(warning.text);
}

std::string ExpandableText(const SeriesSearch& search) {
  return fmt::format("with --alloc-conf expandable_segments:True batch {}: {}", search.found.told(),
                     VerdictWord(*search.expandable));
}

const JudgedTarget& CardOf(const SeriesSearch& search) { return search.largest.cards[0].judged; }

}  // namespace

std::string ToText(const LengthSeries& series, const TextOptions& options) {
  std::string text;
  for (const SeriesOnCard& card : series.cards) {
    text += VerdictLine(card.judged, options);
    if (!options.quiet) text += VerdictDetails(card.judged, options);
  }
  if (options.quiet && !series.cards.empty()) return text;
  return TrimLines(text + TextOfSeries(series));
}

std::string ToText(const std::vector<SeriesSearch>& searches, const TextOptions& options) {
  std::string text;
  for (const SeriesSearch& search : searches) {
    const JudgedTarget& judged = CardOf(search);
    text += BatchHeadline(search.found, judged.target.name, judged, options);
    if (options.quiet) continue;
    text += TriedBullets(search.found, judged) + VerdictDetails(judged, options);
    if (search.expandable) text += Wrap("  - ", ExpandableText(search));
  }
  if (options.quiet) return text;
  return TrimLines(searches.size() == 1 ? text + TextOfSeries(searches[0].largest) : text);
}

std::string ToJson(const LengthSeries& series, const JsonOptions& options) {
  Json json = {{"schema", 1}, {"version", options.version}, {"text", ToText(series)}};
  PutSeries(series, json);
  return Dumped(json) + '\n';
}

std::string ToJson(const std::vector<SeriesSearch>& searches, const JsonOptions& options) {
  const LengthSeries& first = searches[0].largest;
  Json json = {{"schema", 1},          {"version", options.version}, {"text", ToText(searches)},
               {"model", first.model}, {"dim", first.dim},           {"targets", Json::array()}};
  for (const SeriesSearch& search : searches) {
    Json& target = json["targets"].emplace_back(Json{{"gpu", CardOf(search).target.name}});
    PutSearch(search.found, target);
    if (search.expandable) target["expandable"] = ToString(*search.expandable);
    target["series"] = Json::object();
    PutSeries(search.largest, target["series"]);
  }
  return Dumped(json) + '\n';
}

}  // namespace onnxfit
