// An explained out-of-memory message as Markdown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/oom_explanation.h"
#include "estimator/fit/oom_replay.h"
#include "estimator/report/text.h"

namespace onnxfit {

// What the text says, with the message and the commands as code.  With options.quiet the first
// line of each process alone; with options.verbose all processes in full.
std::string ToMarkdown(const std::vector<OomExplanation>& processes,
                       const std::optional<OomReplay>& replay, const TextOptions& options = {});

}  // namespace onnxfit
