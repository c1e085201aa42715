// What grew, for a pull request.
#pragma once

#include <string>

#include "estimator/fit/diff.h"
#include "estimator/report/text.h"

namespace onnxfit {

std::string ToMarkdown(const Diff& diff, const TextOptions& options = {});

}  // namespace onnxfit
