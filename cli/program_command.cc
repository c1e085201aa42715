#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/program_search.h"
#include "cli/program_trial.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/base/cards.h"
#include "estimator/base/error.h"
#include "estimator/picture/page.h"
#include "estimator/picture/program_page.h"
#include "estimator/report/program_run.h"
#include "estimator/report/program_search.h"

namespace onnxfit {
namespace {

// --- What was asked -----------------------------------------------------------------------------

void CheckCards(const Options& options) {
  const TargetOptions& asked = options.targets;
  if (asked.seen.empty()) return;
  if (!asked.cards.empty()) {
    throw Error({.where = "--devices",
                 .text = "expected without --gpu and --cards, which ask about one card each"});
  }
  if (asked.sizes.size() > 1) {
    throw Error(
        {.where = "--memory",
         .text = fmt::format("expected one size beside --devices, found {}", asked.sizes.size())});
  }
}

void CheckProgram(const Options& options) {
  if (options.program.words.empty()) {
    throw Error({.text = "expected a program behind --, found none",
                 .hint = "onnxfit run -g rtx3060 -- python train.py"});
  }
  if (options.program.words[0].starts_with('-')) {
    throw Error({.text = fmt::format("expected a program behind --, found {}",
                                     Quoted(options.program.words[0])),
                 .hint = "flags of onnxfit run in front of --"});
  }
  const bool is_search = options.program.most_batch > 0;
  if (!is_search && std::ranges::find(options.given, "--multiple-of") != options.given.end()) {
    throw Error(
        {.where = "--multiple-of", .text = "expected beside --max-batch, which is missing"});
  }
}

// Nothing is run for a file that cannot be kept.
void CheckFile(const std::string& path, const char* flag, const Options& options) {
  std::error_code ignored;
  const auto refuse = [&](const std::string& text, const char* hint = "") {
    throw Error({.file = path, .where = flag, .text = text, .hint = hint});
  };
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (!std::filesystem::is_directory(folder, ignored)) {
    refuse(fmt::format("expected a folder {}, found none", folder.string()));
  }
  if (!std::filesystem::exists(path, ignored)) return;
  if (std::filesystem::is_directory(path, ignored)) refuse("expected a file, found a directory");
  if (!std::filesystem::is_regular_file(path, ignored)) refuse("expected a file, found a device");
  if (!options.force) refuse("the file exists", "--force");
}

void CheckSnapshot(const Options& options) {
  const std::string& snapshot = options.program.snapshot;
  if (snapshot.empty()) return;
  const bool is_one = options.targets.seen.empty() ? options.request.targets.size() < 2 : true;
  if (!is_one || options.program.most_batch > 0) {
    throw Error(
        {.where = "--snapshot",
         .text = "expected where the program runs once, found several cards or --max-batch"});
  }
  CheckFile(snapshot, "--snapshot", options);
}

// Cards that the program sees at once: all of --devices, else one at a time.
std::vector<std::vector<Target>> GroupsOf(const Options& options) {
  const std::vector<Target>& targets = options.request.targets;
  if (!options.targets.seen.empty()) return {targets};
  std::vector<std::vector<Target>> groups;
  for (const Target& target : targets) groups.push_back({target});
  if (groups.empty()) groups.push_back({AssumedCard()});
  return groups;
}

// --- Its runs -----------------------------------------------------------------------------------

bool IsJson(const Options& options) { return options.format == Format::kJson; }

ProgramTrial TrialOf(const Options& options, const std::vector<Target>& cards,
                     const std::ostream& out) {
  ProgramTrial trial = {.command = options.program.words,
                        .cards = cards,
                        .most_steps = options.program.most_steps,
                        .most_seconds = options.program.most_seconds,
                        .ram_bytes = options.ram_bytes,
                        .idle_seconds = options.program.idle_seconds,
                        .until_same = options.program.until_same,
                        .to_stderr = IsJson(options) && options.output.empty(),
                        .snapshot = options.program.snapshot};
  if (!options.program.page.empty()) trial.curve_points = kPagePoints;
  if (options.timeline) trial.timeline = WithColor(options, out);
  return trial;
}

// Of several, a line each says how far it is.
std::vector<ProgramRun> RunOnEach(const Options& options, const std::ostream& out,
                                  std::ostream& err) {
  const std::vector<std::vector<Target>> groups = GroupsOf(options);
  std::vector<ProgramRun> runs;
  for (const std::vector<Target>& cards : groups) {
    ProgramTrial trial = TrialOf(options, cards, out);
    trial.is_silent = groups.size() > 1;
    ProgramRun& run = runs.emplace_back(RunTrial(trial, err));
    run.is_assumed = options.request.targets.empty();
    if (trial.is_silent && runs.size() < groups.size()) err << HeadlinesOf(run, {}) << std::flush;
  }
  return runs;
}

void WritePage(const Options& options, const auto& answers) {
  if (options.program.page.empty()) return;
  ReplaceFile(options.program.page, ProgramPage(answers, ONNXFIT_VERSION), "page");
}

int CodeOf(const std::vector<ProgramRun>& runs, const Options& options) {
  std::vector<Judgement> judgements;
  for (const ProgramRun& run : runs) {
    if (run.failed) return kExitNoAnswer;
    for (const JudgedTarget& judged : run.cards) judgements.push_back(judged.judgement);
  }
  return ExitCodeOf(judgements, options);
}

int AnswerRuns(const Options& options, std::ostream& out, std::ostream& err) {
  const std::vector<ProgramRun> runs = RunOnEach(options, out, err);
  const std::string report = IsJson(options) ? ToJson(runs, {.version = ONNXFIT_VERSION})
                                             : ToText(runs, WithColor(options, out));
  WriteReport(report, options, out);
  WritePage(options, runs);
  return CodeOf(runs, options);
}

int AnswerSearches(const Options& options, std::ostream& out, std::ostream& err) {
  std::vector<ProgramSearch> searches;
  std::ostream* told = options.text.quiet ? nullptr : &err;
  for (const std::vector<Target>& cards : GroupsOf(options)) {
    searches.push_back(SearchBatch(TrialOf(options, cards, out), LimitsOf(options), told, err));
    searches.back().largest.is_assumed = options.request.targets.empty();
  }
  const std::string report = IsJson(options) ? ToJson(searches, {.version = ONNXFIT_VERSION})
                                             : ToText(searches, WithColor(options, out));
  WriteReport(report, options, out);
  WritePage(options, searches);
  std::vector<Judgement> judgements;
  for (const ProgramSearch& search : searches) {
    for (const JudgedTarget& judged : search.largest.cards) judgements.push_back(judged.judgement);
  }
  return ExitCodeOf(judgements, options);
}

}  // namespace

int RunProgram(const Options& options, std::ostream& out, std::ostream& err) {
  CheckProgram(options);
  CheckCards(options);
  CheckSnapshot(options);
  CheckFile(options.program.page, "--html", options);
  CheckOutput(options, options.program.words.front(), "the program");
  return options.program.most_batch > 0 ? AnswerSearches(options, out, err)
                                        : AnswerRuns(options, out, err);
}

}  // namespace onnxfit
