#include "estimator/report/runtime_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

using Rows = std::vector<std::vector<Cell>>;

constexpr size_t kMostRuns = 32;  // that are told one by one

std::string TextOfRange(const ByteRange& range, const Glyphs& glyphs) {
  if (FormatBytes(range.low) == FormatBytes(range.high)) return FormatBytes(range.high);
  return fmt::format("{} {} {}", FormatBytes(range.low), glyphs.dash, FormatBytes(range.high));
}

// What the sessions had behind their i-th phase: from the least to the most.
std::optional<ByteRange> RangeOfPhase(const RuntimeRun& run, size_t phase,
                                      std::vector<int64_t> RuntimeSession::*bytes) {
  std::optional<ByteRange> range;
  for (const RuntimeSession& session : run.sessions) {
    if ((session.*bytes).size() <= phase) continue;
    const int64_t one = (session.*bytes)[phase];
    if (!range) range = {one, one};
    range = {std::min(range->low, one), std::max(range->high, one)};
  }
  return range;
}

// "run 2 of batch 8, seq 128": the weights stand before all runs.
std::string NameOfPhase(const RuntimeRun& run, size_t phase) {
  if (phase == 0) return "weights";
  const std::string number = fmt::format("run {}", (phase - 1) % kRunsOfShape + 1);
  const size_t shape = (phase - 1) / kRunsOfShape;
  return run.shapes.size() < 2 ? number : fmt::format("{}: {}", run.shapes.at(shape), number);
}

std::string TextOfSessions(const RuntimeRun& run, const Glyphs& glyphs) {
  Rows rows = {{{fmt::format("{}, {} session{}", run.runtime, run.sessions.size(),
                             run.sessions.size() == 1 ? "" : "s")},
                {"arena"},
                {"beside the context"}}};
  for (size_t phase = 0; phase <= kMostRuns; ++phase) {
    const auto used = RangeOfPhase(run, phase, &RuntimeSession::used_bytes);
    const auto arena = RangeOfPhase(run, phase, &RuntimeSession::arena_bytes);
    if (!used || !arena) break;
    rows.push_back({{"  " + NameOfPhase(run, phase)},
                    {TextOfRange(*arena, glyphs)},
                    {TextOfRange(*used, glyphs)}});
  }
  if (run.orders > 0) {
    rows.push_back({{fmt::format("  {} orders of weights, played", run.orders)},
                    {TextOfRange(run.arena, glyphs)},
                    {TextOfRange(run.bytes, glyphs)}});
  }
  return "\n" + Table(rows, "lrr", "");
}

// Where the most goes; the rows add up to it.
std::string TextOfShares(const RuntimeRun& run) {
  if (run.orders == 0) return "";
  const int64_t rest = run.bytes.high - run.most_bytes;
  const Rows rows = {{{FormatBytes(run.weight_bytes)}, {"weights"}},
                     {{FormatBytes(run.most_bytes - run.weight_bytes)},
                      {"values of a run at once, or the block of their pattern; scratch"}},
                     {{FormatBytes(rest)}, {"free in the arena, and what lies outside of it"}}};
  return fmt::format("\nAt most {} beside the context of {}\n", FormatBytes(run.bytes.high),
                     FormatBytes(run.context_bytes)) +
         Table(rows, "rl", "  ");
}

std::string TextOfSettings(const RuntimeRun& run, const Glyphs& glyphs) {
  if (run.settings.empty()) return "";
  Rows rows;
  for (const PlayedSetting& setting : run.settings) {
    rows.push_back({{TextOfRange(setting.bytes, glyphs)}, {setting.flag}});
  }
  return "\nWhat settings make of it, beside the context, played\n" + Table(rows, "rl", "  ");
}

std::string TextOfOpen(const RuntimeRun& run) {
  if (run.open.empty()) return "";
  std::string text = "\nWhat stays open\n";
  for (const std::string& sentence : run.open) text += Wrap("  - ", sentence);
  return text;
}

Json JsonOfSession(const RuntimeSession& session) {
  Json json = {{"used_bytes", session.used_bytes}, {"arena_bytes", session.arena_bytes}};
  PutIfKnown(json, "error", session.error);
  return json;
}

Json JsonOfRun(const RuntimeRun& run) {
  Json json = {{"context_bytes", run.context_bytes}, {"low_bytes", run.bytes.low},
               {"high_bytes", run.bytes.high},       {"weight_bytes", run.weight_bytes},
               {"most_bytes", run.most_bytes},       {"orders", run.orders},
               {"failed_orders", run.failed_orders}, {"arena_low_bytes", run.arena.low},
               {"arena_high_bytes", run.arena.high}, {"sessions", Json::array()},
               {"settings", Json::array()},          {"open", run.open}};
  for (const RuntimeSession& session : run.sessions) {
    json["sessions"].push_back(JsonOfSession(session));
  }
  for (const PlayedSetting& setting : run.settings) {
    json["settings"].push_back({{"flag", setting.flag},
                                {"low_bytes", setting.bytes.low},
                                {"high_bytes", setting.bytes.high}});
  }
  return json;
}

// All of a run below its verdict.
std::string TextBelow(const RuntimeRun& run, const TextOptions& options) {
  const Glyphs& glyphs = GlyphsOf(options);
  return TextOfSessions(run, glyphs) + TextOfShares(run) + TextOfSettings(run, glyphs) +
         TextOfOpen(run);
}

}  // namespace

std::string ToText(const std::vector<RuntimeRun>& runs, const TextOptions& options) {
  std::string text;
  for (const RuntimeRun& run : runs) {
    text += VerdictLine(run.target, options);
    if (!options.quiet) text += VerdictDetails(run.target, options);
  }
  if (options.quiet) return text;
  const RuntimeRun& told = runs.back();
  if (runs.size() > 1) text += fmt::format("\nOn {}\n", told.target.target.name);
  return TrimLines(text + TextBelow(told, options));
}

std::string ToText(const std::vector<RuntimeSearch>& searches, const TextOptions& options) {
  std::string text;
  for (const RuntimeSearch& search : searches) {
    const JudgedTarget& judged = search.largest.target;
    text += BatchHeadline(search.found, judged.target.name, judged, options);
  }
  if (options.quiet) return text;
  for (const RuntimeSearch& search : searches) {
    const JudgedTarget& judged = search.largest.target;
    if (searches.size() > 1) text += fmt::format("\nOn {}\n", judged.target.name);
    text += TriedBullets(search.found, judged);
    if (searches.size() > 1) continue;
    text += VerdictDetails(judged, options) + TextBelow(search.largest, options);
  }
  return TrimLines(text);
}

std::string ToJson(const std::vector<RuntimeRun>& runs, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"basis", "run"},
               {"text", ToText(runs)},
               {"runtime", runs[0].runtime},
               {"model", runs[0].model},
               {"batch", runs[0].batch},
               {"shapes", runs[0].shapes},
               {"targets", Json::array()},
               {"runs", Json::array()}};
  for (const RuntimeRun& run : runs) {
    json["targets"].push_back(TargetJson(run.target));
    json["runs"].push_back(JsonOfRun(run));
  }
  return Dumped(json) + '\n';
}

std::string ToJson(const std::vector<RuntimeSearch>& searches, const JsonOptions& options) {
  const RuntimeRun& run = searches[0].largest;
  Json json = {{"schema", 1},
               {"version", options.version},
               {"basis", "run"},
               {"text", ToText(searches)},
               {"runtime", run.runtime},
               {"model", run.model},
               {"targets", Json::array()}};
  for (const RuntimeSearch& search : searches) {
    Json& target = json["targets"].emplace_back(Json{{"gpu", search.largest.target.target.name}});
    PutSearch(search.found, target);
    target["run"] = JsonOfRun(search.largest);
  }
  return Dumped(json) + '\n';
}

}  // namespace onnxfit
