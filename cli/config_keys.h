// The keys of a config: flags, read by the flags' own rows, and what a [[check]] has beside
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/values.h"
#include "estimator/base/calibration.h"
#include "estimator/compare/check.h"

namespace onnxfit {

// The key that stands for `flag`, "batch" for --batch; "" where a config does not have the flag.
// It has those of "The run", --reserve and --strict.
std::string_view KeyOf(const Flag& flag);

// What a command line would have after `flag`, once for each time it is given.  Errors call it
// `place`.  Throws Error for what cannot be written there at all: a table of switches.
// REQUIRES: `node` stands at the key of `flag`.
std::vector<Typed> ValuesOf(const Flag& flag, const TomlNode& node, const std::string& place);

// A string, number, switch or date as text.  Throws Error for lists and tables: `expected` is
// what belongs there.
Typed ValueOf(const TomlNode& node, const std::string& place, std::string_view expected);

// The items of a list, or the one that stands there alone.
std::vector<Typed> ItemsOf(const TomlNode& node, const std::string& place,
                           std::string_view expected);

[[noreturn]] void RefuseKind(const TomlNode& node, const std::string& place,
                             std::string_view expected);

// What the keys of a [[check]] say of its runs.
struct CheckSettings {
  EstimateRequest request;  // with its targets
  Sweep sweep;
  std::vector<Budget> budgets;
  Allowance max_increase;
  Level level = Level::kError;
  LockUse lock = LockUse::kRequired;
  bool is_strict = false;
  std::string message;
  std::string python;               // which exports models that are Python; "": the one found
  std::vector<std::string> inputs;  // what their forward takes, as --input of an export
};

// Every key that a [[check]] may have.
std::vector<std::string_view> CheckKeys();

// Gives what a file of --calibration has; the key's value is its path, or "none".
using LoadCalibrations = std::function<std::vector<SharedCalibration>(const std::string& path)>;

// Reads all but `name` and `model`; skips keys that are none.  The environment has no say.
// Throws Error, whose line `line` then is.
CheckSettings ReadCheckSettings(const TomlNode& table, const LoadCalibrations& load, int64_t& line);

}  // namespace onnxfit
