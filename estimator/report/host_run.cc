#include "estimator/report/host_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

using HostRows = std::vector<std::vector<Cell>>;

constexpr int64_t kTwentieth = 20;      // is left for the system
constexpr size_t kMostHostPhases = 34;  // that are told one by one

// --- What its sessions come to ------------------------------------------------------------------

// With what it may read yet.
int64_t MostOf(const HostSession& session) { return session.peak_bytes() + session.unread_bytes; }

const HostSession& LargestOf(const std::vector<HostSession>& sessions) {
  return *std::ranges::max_element(sessions, {}, MostOf);
}

std::string NameOfHostPhase(const HostRun& run, size_t phase) {
  if (phase == 0) return "before it, with Python and numpy";
  if (phase == 1) return "session made";
  const std::string number = fmt::format("run {}", (phase - 2) % kRunsOfShape + 1);
  const size_t shape = (phase - 2) / kRunsOfShape;
  return run.shapes.size() < 2 ? number : fmt::format("{}: {}", run.shapes.at(shape), number);
}

// --- Text ---------------------------------------------------------------------------------------

std::string FirstLine(const HostRun& run, const TextOptions& options) {
  if (run.ram_bytes > 0) return VerdictLine(run.target, options);
  const Judgement& judgement = run.target.judgement;
  return fmt::format("{} of RAM{}\n", FormatBytes(judgement.used_bytes),
                     InBrackets(judgement.low_bytes, judgement.high_bytes, GlyphsOf(options)));
}

std::string TextOfPhases(const HostRun& run) {
  if (run.sessions.empty()) return "";
  const HostSession& most = LargestOf(run.sessions);
  HostRows rows = {{{fmt::format("{}, the most of {}", run.runtime,
                                 Counted(run.sessions.size(), "session", "sessions"))},
                    {"at most"},
                    {"at its end"},
                    {"of files"}}};
  for (size_t phase = 0; phase < std::min(most.phases.size(), kMostHostPhases); ++phase) {
    const HostPhase& had = most.phases[phase];
    rows.push_back({{"  " + NameOfHostPhase(run, phase)},
                    {FormatBytes(had.peak_bytes)},
                    {FormatBytes(had.held_bytes)},
                    {FormatBytes(had.file_bytes)}});
  }
  if (most.phases.size() > kMostHostPhases) {
    rows.push_back({{fmt::format("  and {} more", most.phases.size() - kMostHostPhases)},
                    {FormatBytes(most.peak_bytes())}});
    rows.back().resize(4);
  }
  if (most.unread_bytes > 0) {
    rows.push_back({{"  weights that runs may read yet"}, {FormatBytes(most.unread_bytes)}});
    rows.back().resize(4);
  }
  return "\n" + Table(rows, "lrrr", "");
}

std::string TextOfHostSettings(const HostRun& run) {
  if (run.settings.empty()) return "";
  HostRows rows;
  for (const HostSetting& setting : run.settings) {
    const bool is_done = setting.session.error.empty();
    rows.push_back({{is_done ? FormatBytes(MostOf(setting.session)) : "fails"}, {setting.flag}});
  }
  return "\nWhat settings make of it, each run alone\n" + Table(rows, "rl", "  ");
}

std::string TextOfHostBelow(const HostRun& run) {
  std::string text = TextOfPhases(run) + TextOfHostSettings(run);
  if (!run.open.empty()) text += "\nWhat stays open\n";
  for (const std::string& sentence : run.open) text += Wrap("  - ", sentence);
  return text;
}

// --- JSON ---------------------------------------------------------------------------------------

Json JsonOfHostSession(const HostSession& session) {
  Json json = {{"phases", Json::array()}, {"unread_bytes", session.unread_bytes}};
  for (const HostPhase& phase : session.phases) {
    json["phases"].push_back({{"peak_bytes", phase.peak_bytes},
                              {"held_bytes", phase.held_bytes},
                              {"file_bytes", phase.file_bytes}});
  }
  return json;
}

Json JsonOfHost(const HostRun& run) {
  const Judgement& judgement = run.target.judgement;
  Json json = {{"bytes", judgement.used_bytes}, {"least_bytes", judgement.low_bytes}};
  if (run.ram_bytes == 0) return json;
  json["limit_bytes"] = run.ram_bytes;
  json["verdict"] = ToString(judgement.verdict);
  json["reasons"] = judgement.reasons;
  return json;
}

Json JsonOfHostRun(const HostRun& run, const std::string& text, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"basis", "run"},
               {"text", text},
               {"runtime", run.runtime},
               {"provider", "cpu"},
               {"model", run.model},
               {"batch", run.batch},
               {"shapes", run.shapes},
               {"host", JsonOfHost(run)},
               {"sessions", Json::array()},
               {"settings", Json::array()},
               {"open", run.open}};
  for (const HostSession& session : run.sessions) {
    json["sessions"].push_back(JsonOfHostSession(session));
  }
  for (const HostSetting& setting : run.settings) {
    if (!setting.session.error.empty()) continue;
    json["settings"].push_back({{"flag", setting.flag}, {"bytes", MostOf(setting.session)}});
  }
  return json;
}

}  // namespace

int64_t HostSession::peak_bytes() const {
  int64_t most = 0;
  for (const HostPhase& phase : phases) most = std::max(most, phase.peak_bytes);
  return most;
}

// Pages of files at the peak itself are not known: the fewer of those before and behind it.
int64_t HostSession::kept_bytes() const {
  int64_t most = 0;
  int64_t files_before = 0;
  for (const HostPhase& phase : phases) {
    most = std::max(most, phase.peak_bytes - std::min(files_before, phase.file_bytes));
    files_before = phase.file_bytes;
  }
  return most;
}

void JudgeHost(HostRun& run) {
  const HostSession& largest = LargestOf(run.sessions);
  Judgement& judgement = run.target.judgement;
  judgement.usable_bytes = run.ram_bytes;
  judgement.used_bytes = judgement.high_bytes = MostOf(largest);
  judgement.low_bytes = std::ranges::min(run.sessions, {}, &HostSession::peak_bytes).peak_bytes();
  if (run.ram_bytes == 0) return;
  const int64_t kept = std::ranges::max(run.sessions, {}, &HostSession::kept_bytes).kept_bytes();
  if (kept > run.ram_bytes) {
    judgement.verdict = Verdict::kOom;
    judgement.reasons.push_back(fmt::format(
        "{} of it stay in RAM: only pages of files can be read again", FormatBytes(kept)));
  } else if (judgement.used_bytes > run.ram_bytes) {
    judgement.verdict = Verdict::kTight;
    judgement.reasons.emplace_back(
        "weights and libraries are mapped from files: what has no room is read again and again");
  } else if (run.ram_bytes - judgement.used_bytes < run.ram_bytes / kTwentieth) {
    judgement.verdict = Verdict::kTight;
    judgement.reasons.emplace_back("less than 5% is left for the system and what else runs there");
  }
}

void JudgeEnded(int64_t machine_bytes, HostRun& run) {
  Judgement& judgement = run.target.judgement;
  judgement = {.verdict = Verdict::kOom, .usable_bytes = run.ram_bytes};
  judgement.used_bytes = judgement.low_bytes = judgement.high_bytes = machine_bytes;
  judgement.reasons.push_back(fmt::format(
      "the system ended a session on this machine, which has {}: it takes more than that",
      FormatBytes(machine_bytes)));
}

std::string ToText(const HostRun& run, const TextOptions& options) {
  if (options.quiet) return FirstLine(run, options);
  std::string text = FirstLine(run, options);
  if (run.ram_bytes > 0) text += VerdictDetails(run.target, options);
  return TrimLines(text + TextOfHostBelow(run));
}

std::string ToText(const HostSearch& search, const TextOptions& options) {
  const JudgedTarget& judged = search.largest.target;
  const std::string headline = BatchHeadline(search.found, judged.target.name, judged, options);
  if (options.quiet) return headline;
  return TrimLines(headline + TriedBullets(search.found, judged) + VerdictDetails(judged, options) +
                   TextOfHostBelow(search.largest));
}

std::string ToJson(const HostRun& run, const JsonOptions& options) {
  return Dumped(JsonOfHostRun(run, ToText(run), options)) + '\n';
}

std::string ToJson(const HostSearch& search, const JsonOptions& options) {
  Json json = JsonOfHostRun(search.largest, ToText(search), options);
  PutSearch(search.found, json);
  return Dumped(json) + '\n';
}

}  // namespace onnxfit
