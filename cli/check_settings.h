// What the keys of a [[check]] say of its runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/toml_file.h"
#include "estimator/base/calibration.h"
#include "estimator/fit/check.h"

namespace onnxfit {

struct CheckSettings {
  EstimateRequest request;  // with its targets
  Sweep sweep;
  std::vector<Budget> budgets;
  Allowance max_increase;
  Level level = Level::kError;
  bool is_strict = false;
  std::string message;
};

// Every key that a [[check]] may have.
std::vector<std::string_view> CheckKeys();

// Gives what a file of --calibration has; the key's value is its path, or "none".
using LoadCalibrations = std::function<std::vector<SharedCalibration>(const std::string& path)>;

// Reads all but `name` and `model`; skips keys that are none.  The environment has no say.
// Throws Error, whose line `line` then is.
CheckSettings ReadCheckSettings(const TomlNode& table, const LoadCalibrations& load, int64_t& line);

}  // namespace onnxfit
