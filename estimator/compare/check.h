// The CI gate: what a run may take, and whether it takes more than before.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/settings.h"
#include "estimator/compare/compare.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

enum class Level : uint8_t { kError, kWarn, kOff };
inline constexpr Spelling<Level> kLevels[] = {
    {"error", Level::kError}, {"warn", Level::kWarn}, {"off", Level::kOff}};

// Whether a check has to be in the lock.
enum class LockUse : uint8_t { kRequired, kOptional, kNone };
inline constexpr Spelling<LockUse> kLockUses[] = {
    {"required", LockUse::kRequired}, {"optional", LockUse::kOptional}, {"none", LockUse::kNone}};

// Worst last, so that statuses can be compared.
enum class CheckStatus : uint8_t {
  kPass,
  kOff,    // not run
  kGone,   // of the lock, no check has it
  kNew,    // its budgets hold; there is nothing to compare it with, or it cannot be read
  kWarn,   // fails at level warn
  kFail,   // a budget does not hold, it takes more than before, or has to be compared and is not
  kError,  // no answer
};
inline constexpr size_t kCheckStatuses = 7;
std::string_view ToString(CheckStatus status);  // "pass", "off", …: the JSON's words

// What a run may take.
struct Budget {
  std::string text;                   // as written: "16GiB", "t4", "80% of t4"
  std::optional<int64_t> bytes = {};  // a size: device_bytes may be this
  std::optional<Target> target = {};  // a card: the run must not be OOM there
  double share = 1;                   // of the card: this much of it may be used
};

// How a model that is Python becomes a file: a function is called, what it returns is exported.
struct PythonExport {
  std::string target;                    // "net:build", "torchvision:resnet50"
  std::string folder = {};               // where modules are looked for: the config's; "": this one
  std::string python = {};               // which runs it; "": the one that is found
  std::vector<std::string> inputs = {};  // what forward takes; empty: the function says
  bool is_eval = false;                  // as it answers, not as it trains

  auto operator<=>(const PythonExport&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct ModelSource {
  std::string path;                         // of a file; "ci/net:build" of Python
  std::optional<PythonExport> python = {};  // absent: a file

  auto operator<=>(const ModelSource&) const = default;  // NOLINT(modernize-use-nullptr)
};

// One run to be checked.
struct Check {
  std::string name;   // of all checks only this one's: "resnet50", "zoo[models/lenet.onnx, bf16]"
  std::string model;  // its path, as the config has it
  std::optional<PythonExport> python = {};  // of a model that is Python
  std::vector<ModelSource> models = {};     // that share its dims and inputs: one has to have each
  EstimateRequest request;  // its targets are those of the budgets that have one, in their order
  std::vector<Budget> budgets = {};
  Allowance max_increase = {};
  Level level = Level::kError;
  LockUse lock = LockUse::kRequired;
  bool is_strict = false;    // TIGHT does not hold
  std::string message = {};  // for who reads of its failure
  int64_t line = 0;          // of the config, from 1
  std::string error = {};    // where the config's part for it is wrong: nothing is run

  ModelSource source() const { return {.path = model, .python = python}; }
};

struct BudgetResult {
  std::string text;
  bool holds = true;
  int64_t used_bytes = 0;
  int64_t limit_bytes = 0;
  std::optional<Judgement> judgement = {};  // of a card
};

// What came of one.
struct CheckRow {
  std::string name;
  std::string model;
  int64_t line = 0;  // of the config; 0 where it is gone
  CheckStatus status = CheckStatus::kPass;
  std::string message = {};                // the config's, for who reads of a failure
  std::string error = {};                  // why there is no answer
  std::string not_compared = {};           // why there is no comparison, where one was asked for
  bool has_to_be_compared = false;         // and is not, which fails
  std::vector<BudgetResult> budgets = {};  // in the order of the check's
  std::optional<Snapshot> now = {};
  std::optional<Comparison> comparison = {};  // where there is something to compare with
  Allowance max_increase = {};
  int64_t allowed_bytes = 0;   // what that is here
  bool grew_too_much = false;  // more than that
  Warnings warnings = {};      // of its estimate
};

struct CheckAnswer {
  std::string config;        // its path
  std::string against = {};  // what it was compared with, as sentences have it: "the lock", "main"
  std::string renewal = "onnxfit check --update";  // what writes the lock
  bool is_update = false;                          // it was written
  std::vector<CheckRow> rows = {};      // in the order of the config; those that are gone last
  std::vector<std::string> notes = {};  // about all of them, a sentence each

  std::array<size_t, kCheckStatuses> counts() const;  // by CheckStatus
  std::vector<const CheckRow*> worst_first() const;   // equals in the order of rows
};

// What runs are compared with.
struct Baseline {
  bool compares = true;                   // false: nothing is compared, and nothing is new
  bool gates = true;                      // false: growth is told and is no failure
  std::optional<Snapshot> snapshot = {};  // absent where it does not have the run
  std::string why_none = {};              // why it has none of any run: it cannot be read
  std::string why_missing = {};           // why it does not have this one, where that is a failure
};

// Judges one that has an answer.
// REQUIRES: `estimate` is of check.request, `now` of `estimate`.
CheckRow JudgeCheck(const Check& check, const Estimate& estimate, const Snapshot& now,
                    const Baseline& baseline);

// Of one that has none: `error` says why, or is "" where it is off.
CheckRow UnansweredCheck(const Check& check, const std::string& error);

// Of one that the lock has and the config does not.  `fails` is the level at which that fails; it
// is told and no more where there is none.
CheckRow GoneCheck(const std::string& name, const Snapshot& before,
                   std::optional<Level> fails = {});

// The status of what fails at `level`.  REQUIRES: it is not off.
CheckStatus FailureAt(Level level);

}  // namespace onnxfit
