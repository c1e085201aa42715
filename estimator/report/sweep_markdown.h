// A table over combinations as Markdown.
#pragma once

#include <string>

#include "estimator/fit/sweep.h"
#include "estimator/report/text.h"

namespace onnxfit {

// What the text says; a column for each target, and one for reasons where rows have no answer.
std::string ToMarkdown(const SweepAnswer& answer, const TextOptions& options = {});

}  // namespace onnxfit
