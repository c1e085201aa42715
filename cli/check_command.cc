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
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/base/text.h"
#include "estimator/fit/predict.h"
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

// A report never takes the place of what it is about.
void RefuseInput(const std::string& file, const CheckAnswer& answer) {
  std::error_code ignored;
  std::vector<std::string> inputs = {answer.config, LockPathOf(answer.config)};
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
  for (const FormattedOutput& output : outputs) RefuseInput(output.file, answer);
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

std::vector<Check> Chosen(const Gate& gate) {
  std::vector<Check> checks;
  std::copy_if(gate.all.begin(), gate.all.end(), std::back_inserter(checks),
               [&](const Check& check) { return gate.Takes(check.name); });
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

// None yet is an empty one.
void OpenLock(Gate& gate) {
  gate.lock = ReadLockFile(gate.lock_path);
  gate.baselines = OfLock(gate.lock.value_or(Lock{.version = ONNXFIT_VERSION}), kTheLock);
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
  gate.trouble.push_back(TroubleRow(gate.lock_path, CheckStatus::kWarn, gate.baselines.warning));
}

// --- Answers ---------------------------------------------------------------------------------

CheckRow Answer(const Check& check, const LoadedModels& models, const Gate& gate) {
  if (!check.error.empty()) return UnansweredCheck(check, check.error);
  if (check.level == Level::kOff) return UnansweredCheck(check, "");
  try {
    const Side side = SideOf(*models.Find(check.model), check.request);
    Baseline baseline = gate.baselines.of(check);
    baseline.gates = !gate.options.update;  // what the lock will have is no regression
    return JudgeCheck(check, *side.estimate, side.snapshot, baseline);
  } catch (const Error& error) {
    return UnansweredCheck(check, error.what());
  }
}

// Those that are to be run, and those that share sizes with them.
std::vector<std::string> ModelsToRead(const std::vector<Check>& checks) {
  std::vector<std::string> paths = ModelsOf(checks);
  for (const Check& check : checks) {
    const bool shares = check.models.size() > 1 && !NamesIn(check.request.binding).empty();
    if (shares) paths.insert(paths.end(), check.models.begin(), check.models.end());
  }
  return paths;
}

std::vector<CheckRow> AnswerAll(const Gate& gate) {
  const LoadedModels models(ModelsToRead(gate.checks), [](const std::string& path) {
    return std::optional<Graph>(LoadModel(path));
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
    if (gate.Takes(name) && !HasCheck(gate.all, name)) rows.push_back(GoneCheck(name, snapshot));
  }
  return rows;
}

// A part of a lock is renewed where the rest of it can be read.
void CheckRest(const Gate& gate) {
  if (gate.options.only.empty() || (gate.has_lock && gate.baselines.warning.empty())) return;
  throw Error({.where = "--only",
               .text = "expected a lock of this version that can be read, for the other checks",
               .hint = "onnxfit check --update without --only"});
}

// Paths are the config's, from wherever it was asked.
Snapshot Located(Snapshot snapshot, const std::string& config) {
  const std::filesystem::path folder = std::filesystem::path(config).parent_path();
  snapshot.model = std::filesystem::path(snapshot.model).lexically_relative(folder).string();
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
    if (row.now) lock.checks[row.name] = Located(*row.now, gate.options.config);
  }
  return lock;
}

void Update(const Gate& gate, CheckAnswer& answer) {
  try {
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
Gate OpenGate(const CheckOptions& options) {
  std::error_code ignored;
  const bool is_standard = options.config == CheckOptions().config;
  if (is_standard && !std::filesystem::exists(options.config, ignored)) {
    throw Error({.file = options.config,
                 .text = "expected a config of checks, there is none here",
                 .hint = "onnxfit init writes one"});
  }
  Gate gate = {.options = options,
               .lock_path = LockPathOf(options.config),
               .all = ReadCheckConfig(options.config).checks,
               .checks = {}};
  gate.checks = Chosen(gate);
  OpenBaseline(gate);
  return gate;
}

CheckAnswer AnswerOf(Gate& gate) {
  const CheckOptions& options = gate.options;
  CheckAnswer answer = {.config = options.config, .against = gate.baselines.name};
  answer.rows = AnswerAll(gate);
  for (CheckRow& row : GoneRows(gate)) answer.rows.push_back(std::move(row));
  for (CheckRow& row : gate.trouble) answer.rows.push_back(std::move(row));
  if (options.update) {
    Update(gate, answer);
  } else if (options.against.empty() && !gate.lock && gate.trouble.empty()) {
    answer.notes.push_back(
        fmt::format("there is no {} yet, so nothing was compared and no growth can fail: run "
                    "onnxfit check --update and commit that file",
                    gate.lock_path));
  }
  return answer;
}

// A service that shows the answer shows this, too, and not that of the run before.
CheckAnswer Refusal(const Error& error, const CheckOptions& options) {
  CheckAnswer answer = {.config = options.config};
  answer.rows.push_back(TroubleRow(options.config, error));
  return answer;
}

CheckAnswer AnswerOf(const CheckOptions& options) {
  try {
    Gate gate = OpenGate(options);
    return AnswerOf(gate);
  } catch (const Error& error) {
    return Refusal(error, options);
  }
}

}  // namespace

int RunCheck(const Options& options, std::ostream& out) {
  if (options.check.update && !options.check.against.empty()) {
    throw Error({.where = "--update", .text = "expected without --against, which has no lock"});
  }
  const CheckAnswer answer = AnswerOf(options.check);
  WriteOutputs(answer, options, out);
  return ExitCodeOf(answer, options);
}

}  // namespace onnxfit
