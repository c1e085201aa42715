// Explained out-of-memory messages as comma-separated values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/oom_explanation.h"
#include "estimator/fit/oom_replay.h"

namespace onnxfit {

// A header, then a record for each process: where the message stands and what it means, the sizes
// that it gives in bytes, what it lacks, and what a model says to the first process.  The columns
// are always the same; what is not known is empty.
std::string ToCsv(const std::string& log, const std::vector<OomExplanation>& processes,
                  const std::optional<OomReplay>& replay, bool ascii = false);

}  // namespace onnxfit
