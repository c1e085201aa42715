#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <utility>

#include "cli/baselines.h"
#include "cli/check_config.h"
#include "cli/commands.h"
#include "cli/compared.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/python_models.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/base/text.h"
#include "estimator/report/check.h"

namespace onnxfit {
namespace {

std::string ReportOf(const CheckAnswer& answer, CheckFormat format, const TextOptions& text) {
  switch (format) {
    case CheckFormat::kText:
      return ToText(answer, text);
    case CheckFormat::kJson:
      return ToJson(answer, {.version = ONNXFIT_VERSION});
    case CheckFormat::kMarkdown:
      return ToMarkdown(answer);
    case CheckFormat::kJunit:
      return ToJunit(answer);
    case CheckFormat::kSarif:
      return ToSarif(answer, ONNXFIT_VERSION);
    case CheckFormat::kGithub:
      return ToGithub(answer);
    case CheckFormat::kGitlab:
      return ToGitlab(answer);
    case CheckFormat::kBench:
      return ToBench(answer);
  }
  return "";
}

void WriteFile(const std::string& path, const std::string& report) {
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << report << std::flush;
  if (!file) {
    throw Error({.file = path, .where = "--format", .text = "the report could not be written"});
  }
}

std::string LockOf(const CheckOptions& options) {
  return options.lock.empty() ? LockPathOf(options.config) : options.lock;
}

// A report never takes the place of what it is about.
void RefuseInput(const std::string& file, const CheckAnswer& answer, const std::string& lock) {
  std::error_code ignored;
  std::vector<std::string> inputs = {answer.config, lock};
  for (const CheckRow& row : answer.rows) inputs.push_back(row.model);
  for (const std::string& input : inputs) {
    if (file.empty() || !std::filesystem::equivalent(file, input, ignored)) continue;
    throw Error({.file = file,
                 .where = "--format",
                 .text = "expected another file than the config, the lock and the models"});
  }
}

// The answer in each format that was asked for.  Standard output has text unless a format is for
// it.  Files are written over, their folders made.  Throws Error where one cannot be written, after
// all others are.
void WriteOutputs(const CheckAnswer& answer, const Options& options, std::ostream& out) {
  std::vector<FormattedOutput> outputs = options.check.outputs;
  for (const FormattedOutput& output : outputs)
    RefuseInput(output.file, answer, LockOf(options.check));
  const bool has_standard = std::any_of(outputs.begin(), outputs.end(),
                                        [](const FormattedOutput& o) { return o.file.empty(); });
  if (!has_standard) outputs.push_back({});
  std::optional<Error> failed;
  for (const FormattedOutput& output : outputs) {
    TextOptions text = output.file.empty() ? WithColor(options, out) : options.text;
    const std::string report = ReportOf(answer, output.format, text);
    try {
      if (output.file.empty()) {
        WriteReport(report, options, out);
      } else {
        WriteFile(output.file, report);
      }
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) throw Error(*failed);
}

constexpr const char* kTheLock = "the lock";

// What the command works on.
struct Gate {
  const CheckOptions& options;
  std::string lock_path;
  std::vector<Check> all;     // of the config
  std::optional<Level> gone;  // at which a check that it does not have fails
  std::vector<Check> checks;  // of these, what --only leaves
  std::optional<Lock> lock = {};
  bool has_lock = true;  // or none is there yet: false where it cannot be read
  Baselines baselines = {};
  std::vector<CheckRow> trouble = {};  // with what is not a check

  bool Takes(const std::string& name) const {
    return options.only.empty() ||
           std::any_of(options.only.begin(), options.only.end(),
                       [&](const std::string& glob) { return MatchesGlob(name, glob); });
  }
};

CheckRow TroubleRow(const std::string& name, CheckStatus status, const std::string& text) {
  return {.name = name, .model = name, .status = status, .error = text};
}

// The row's name is not said again.
CheckRow TroubleRow(const std::string& name, const Error& error) {
  Error::Parts parts = error.parts();
  if (parts.file == name) parts.file.clear();
  if (parts.where == name) parts.where.clear();
  return TroubleRow(name, CheckStatus::kError, Error(parts).what());
}

// Of what nothing can be compared with.
CheckRow VainRow(const std::string& name, CheckStatus status, const std::string& why) {
  return {.name = name,
          .model = name,
          .status = status,
          .not_compared = why,
          .has_to_be_compared = true};
}

std::vector<Check> Chosen(const Gate& gate, bool is_strict) {
  std::vector<Check> checks;
  std::copy_if(gate.all.begin(), gate.all.end(), std::back_inserter(checks),
               [&](const Check& check) { return gate.Takes(check.name); });
  for (Check& check : checks) check.is_strict = check.is_strict || is_strict;
  if (!checks.empty()) return checks;
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(gate.all.size(), 5); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", gate.all[i].name);
  }
  throw Error({.where = "--only",
               .text = fmt::format("expected a check of the config, found none of this name; "
                                   "it has {}{}",
                                   names, gate.all.size() > 5 ? ", ..." : "")});
}

// What the checks want of what they are compared with, the most of each: what --against names is
// wanted by all.
LockUse WantedOf(const Check& check, const Gate& gate) {
  const bool is_lock = gate.options.against.empty();
  return check.lock == LockUse::kNone && !is_lock ? LockUse::kRequired : check.lock;
}

// The status where nothing can be compared, by the check that wants it most; PASS where none does.
CheckStatus StatusInVain(const Gate& gate) {
  CheckStatus worst = CheckStatus::kPass;
  for (const Check& check : gate.checks) {
    if (!check.error.empty() || check.level == Level::kOff) continue;
    const LockUse wanted = WantedOf(check, gate);
    if (wanted == LockUse::kOptional) worst = std::max(worst, CheckStatus::kWarn);
    if (wanted == LockUse::kRequired) worst = std::max(worst, FailureAt(check.level));
  }
  return worst;
}

bool WantsLock(const Check& check) { return check.lock != LockUse::kNone; }

// None yet is an empty one, of which no check has to be.
void OpenLock(Gate& gate) {
  gate.baselines = NoBaselines();
  gate.baselines.name.clear();
  if (std::ranges::none_of(gate.all, WantsLock)) return;
  gate.baselines.name = kTheLock;
  gate.lock = ReadLockFile(gate.lock_path, RenewalOf(gate.options));
  gate.baselines = gate.lock ? OfLock(*gate.lock, kTheLock) : NoneFrom(kTheLock, "");
  const auto of = gate.baselines.of;
  gate.baselines.of = [of](const Check& check) {
    return WantsLock(check) ? of(check) : Baseline{.compares = false};
  };
}

// What cannot be read compares nothing, and is told beside the checks.
void OpenBaseline(Gate& gate) {
  const std::string& against = gate.options.against;
  try {
    if (against.empty()) {
      OpenLock(gate);
    } else {
      gate.baselines = OpenBaselines(against, gate.checks);
    }
  } catch (const Error& error) {
    gate.baselines = NoBaselines();
    gate.baselines.name = against.empty() ? kTheLock : against;
    gate.has_lock = false;
    if (gate.options.update) return;  // it is written anew
    gate.baselines = NoneFrom(gate.baselines.name, gate.baselines.name + " cannot be read");
    const std::string name = against.empty() ? gate.lock_path : against;
    gate.trouble.push_back(TroubleRow(name, error));
  }
  if (gate.baselines.warning.empty()) return;
  if (gate.options.update) {  // the old one is no matter any more
    gate.baselines.of = NoBaselines().of;
    return;
  }
  if (const CheckStatus status = StatusInVain(gate); status != CheckStatus::kPass) {
    const std::string& name = against.empty() ? gate.lock_path : against;
    gate.trouble.push_back(VainRow(name, status, gate.baselines.warning));
  }
}

// --- Answers ---------------------------------------------------------------------------------

CheckRow Answer(const Check& check, const LoadedModels& models, const Gate& gate) {
  if (!check.error.empty()) return UnansweredCheck(check, check.error);
  if (check.level == Level::kOff) return UnansweredCheck(check, "");
  try {
    const Side side = SideOf(*models.Find(check.source()), check.request);
    Baseline baseline = gate.baselines.of(check);
    baseline.gates = !gate.options.update;  // what the lock will have is no regression
    return JudgeCheck(check, *side.estimate, side.snapshot, baseline);
  } catch (const Error& error) {
    return UnansweredCheck(check, error.what());
  }
}

// Those that are to be run, and those that share sizes with them.
std::vector<ModelSource> ModelsToRead(const std::vector<Check>& checks) {
  std::vector<ModelSource> sources = ModelsOf(checks);
  for (const Check& check : checks) {
    const bool shares = check.models.size() > 1 && !NamesIn(check.request.binding).empty();
    if (shares) sources.insert(sources.end(), check.models.begin(), check.models.end());
  }
  return sources;
}

std::vector<CheckRow> AnswerAll(const Gate& gate, Progress& progress) {
  const LoadedModels models(ModelsToRead(gate.checks), [&](const ModelSource& source) {
    if (source.python) progress.Show(fmt::format("exporting {}", source.path));
    return std::optional<Graph>(LoadSource(source));
  });
  std::vector<CheckRow> rows(gate.checks.size());
  ForEachIndex(rows.size(), [&](size_t i) {
    Check check = gate.checks[i];
    check.request.wants_range = false;
    DimBinding& binding = check.request.binding;
    if (check.models.size() > 1) {
      binding.optional.merge(NamesOfAny(binding, models.Readable(check.models)));
    }
    rows[i] = Answer(check, models, gate);
  });
  return rows;
}

// --- The lock --------------------------------------------------------------------------------

// Whether the config has the check; of a check that cannot be read all that it may stand for.
bool HasCheck(const std::vector<Check>& checks, const std::string& name) {
  return std::any_of(checks.begin(), checks.end(), [&](const Check& check) {
    const bool is_unread = !check.error.empty() && name.starts_with(check.name + "[");
    return check.name == name || is_unread;
  });
}

std::vector<CheckRow> GoneRows(const Gate& gate) {
  std::vector<CheckRow> rows;
  if (!gate.lock || !gate.options.against.empty()) return rows;
  for (const auto& [name, snapshot] : gate.lock->checks) {
    if (!gate.Takes(name) || HasCheck(gate.all, name)) continue;
    rows.push_back(GoneCheck(name, snapshot, gate.options.update ? std::nullopt : gate.gone));
  }
  return rows;
}

// A part of a lock is renewed where the rest of it can be read.
void CheckRest(const Gate& gate) {
  if (gate.options.only.empty() || (gate.has_lock && gate.baselines.warning.empty())) return;
  throw Error({.where = "--only",
               .text = "expected a lock of this version that can be read, for the other checks",
               .hint = RenewalOf(gate.options) + " without --only"});
}

// Paths are the config's, from wherever it was asked, or, of what is not below it, the lock's.
Snapshot Located(Snapshot snapshot, const Gate& gate) {
  namespace fs = std::filesystem;
  const fs::path model = snapshot.model;
  const fs::path folder = fs::path(gate.options.config).parent_path();
  fs::path path = model.lexically_relative(folder);
  const bool is_below = !path.empty() && *path.begin() != "..";
  if (!is_below && !gate.options.lock.empty()) {
    std::error_code ignored;
    path = fs::proximate(model, fs::absolute(gate.lock_path).parent_path(), ignored);
  }
  snapshot.model = path.string();
  return snapshot;
}

// The new lock: what was answered now, and of the old one what was not asked or has no answer.
Lock Renewed(const Gate& gate, const std::vector<CheckRow>& rows) {
  Lock lock = {.version = ONNXFIT_VERSION};
  if (gate.lock && gate.lock->version == lock.version) {
    for (const auto& [name, snapshot] : gate.lock->checks) {
      if (HasCheck(gate.all, name) || !gate.Takes(name)) lock.checks[name] = snapshot;
    }
  }
  for (const CheckRow& row : rows) {
    if (row.now) lock.checks[row.name] = Located(*row.now, gate);
  }
  for (const Check& check : gate.all) {
    if (!WantsLock(check)) lock.checks.erase(check.name);
  }
  return lock;
}

void CheckWanted(const Gate& gate) {
  if (std::ranges::any_of(gate.all, WantsLock)) return;
  throw Error({.where = "--update",
               .text = "expected a check that has a lock, all of them say lock = \"none\""});
}

void Update(const Gate& gate, CheckAnswer& answer) {
  try {
    CheckWanted(gate);
    CheckRest(gate);
    WriteLockFile(gate.lock_path, Renewed(gate, answer.rows));
    answer.is_update = true;
    answer.notes.push_back(fmt::format("{} is written: commit it", gate.lock_path));
  } catch (const Error& error) {
    answer.rows.push_back(TroubleRow(gate.lock_path, error));
  }
}

int ExitCodeOf(const CheckAnswer& answer, const Options& options) {
  const auto counts = answer.counts();
  if (counts[static_cast<size_t>(CheckStatus::kError)] > 0) return kExitNoAnswer;
  const bool fails = counts[static_cast<size_t>(CheckStatus::kFail)] > 0;
  return fails && !options.exit_zero ? kExitTargetFails : kExitDone;
}

// Throws Error where there is nothing to check.
Gate OpenGate(const CheckOptions& options, bool is_strict) {
  std::error_code ignored;
  const bool is_standard = options.config == CheckOptions().config;
  if (is_standard && !std::filesystem::exists(options.config, ignored)) {
    throw Error({.file = options.config,
                 .text = "expected a config of checks, there is none here",
                 .hint = "onnxfit init writes one"});
  }
  CheckConfig config = ReadCheckConfig(options.config);
  Gate gate = {.options = options,
               .lock_path = LockOf(options),
               .all = std::move(config.checks),
               .gone = config.gone,
               .checks = {}};
  gate.checks = Chosen(gate, is_strict);
  OpenBaseline(gate);
  return gate;
}

// Where no lock is there yet.
void TellOfNone(const Gate& gate, CheckAnswer& answer) {
  const CheckStatus status = StatusInVain(gate);
  if (status == CheckStatus::kPass) return;
  const bool is_optional = std::ranges::none_of(gate.checks, [](const Check& check) {
    return check.lock == LockUse::kRequired && check.level != Level::kOff;
  });
  if (is_optional) {
    answer.notes.push_back(
        fmt::format("there is no {} yet, so nothing was compared and no growth can fail: run "
                    "{} and commit that file",
                    gate.lock_path, RenewalOf(gate.options)));
    return;
  }
  answer.rows.push_back(VainRow(gate.lock_path, status,
                                "there is no such file, so no growth can be seen; lock = \"none\" "
                                "in the config does without one"));
}

// What --against names and has none of the checks.  A branch may be older than all models.
void TellOfOthers(const Gate& gate, CheckAnswer& answer) {
  const auto is_compared = [](const CheckRow& row) { return row.comparison.has_value(); };
  const auto is_new = [](const CheckRow& row) { return row.status == CheckStatus::kNew; };
  const bool is_in_vain = std::ranges::none_of(answer.rows, is_compared) &&
                          std::ranges::any_of(answer.rows, is_new) && gate.trouble.empty();
  if (!is_in_vain) return;
  const bool is_git = gate.options.against.starts_with(kGit);
  answer.rows.push_back(VainRow(
      gate.options.against, is_git ? CheckStatus::kWarn : StatusInVain(gate),
      is_git ? "it has none of these models" : "it has none of these models with such settings"));
}

CheckAnswer AnswerOf(Gate& gate, Progress& progress) {
  const CheckOptions& options = gate.options;
  CheckAnswer answer = {
      .config = options.config, .against = gate.baselines.name, .renewal = RenewalOf(options)};
  answer.rows = AnswerAll(gate, progress);
  for (CheckRow& row : GoneRows(gate)) answer.rows.push_back(std::move(row));
  if (options.update) {
    Update(gate, answer);
  } else if (!options.against.empty()) {
    TellOfOthers(gate, answer);
  } else if (!gate.lock && gate.trouble.empty()) {
    TellOfNone(gate, answer);
  }
  for (CheckRow& row : gate.trouble) answer.rows.push_back(std::move(row));
  return answer;
}

// A service that shows the answer shows this, too, and not that of the run before.
CheckAnswer Refusal(const Error& error, const CheckOptions& options) {
  CheckAnswer answer = {.config = options.config};
  answer.rows.push_back(TroubleRow(options.config, error));
  return answer;
}

CheckAnswer AnswerOf(const CheckOptions& options, bool is_strict, std::ostream& err) {
  Progress progress(err);
  try {
    Gate gate = OpenGate(options, is_strict);
    return AnswerOf(gate, progress);
  } catch (const Error& error) {
    return Refusal(error, options);
  }
}

}  // namespace

int RunCheck(const Options& options, std::ostream& out, std::ostream& err) {
  if (options.check.update && !options.check.against.empty()) {
    throw Error({.where = "--update", .text = "expected without --against, which has no lock"});
  }
  if (!options.check.lock.empty() && !options.check.against.empty()) {
    throw Error({.where = "--lock", .text = "expected without --against, which takes its place"});
  }
  const CheckAnswer answer = AnswerOf(options.check, options.is_strict, err);
  WriteOutputs(answer, options, out);
  return ExitCodeOf(answer, options);
}

}  // namespace onnxfit
