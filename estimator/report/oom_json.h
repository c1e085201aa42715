// An explained out-of-memory message as JSON for programs, schema 1.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/oom_explanation.h"
#include "estimator/fit/oom_replay.h"
#include "estimator/report/json.h"

namespace onnxfit {

// One object; `log` is the path of what was read.  Sizes are integers with the range that their
// rounding leaves ("bytes", "low", "high"); what a message does not say is absent.
std::string ToJson(const std::string& log, const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const JsonOptions& options);

}  // namespace onnxfit
