// An explained out-of-memory message as a page for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/oom_explanation.h"
#include "estimator/fit/oom_replay.h"
#include "estimator/report/text.h"

namespace onnxfit {

// The first process in full, the others with a line each; with options.verbose all in full, with
// options.quiet the first line of each alone.  At most 80 columns wide, every line with its
// newline.  `replay` is what a model says to the first process, where one was named.
std::string ToText(const std::vector<OomExplanation>& processes,
                   const std::optional<OomReplay>& replay, const TextOptions& options = {});

}  // namespace onnxfit
