// An estimate as Markdown, to be pasted into a pull request.
#pragma once

#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/report/text.h"

namespace onnxfit {

// What ToText(estimate, options) says, in tables and lists of GitHub's Markdown; names are code
// and never cut.  With options.quiet the first line alone.
std::string ToMarkdown(const Estimate& estimate, const TextOptions& options = {});

}  // namespace onnxfit
