// A check for people: all in a line, then a line a run, the worst first.
#pragma once

#include <string>

#include "estimator/fit/check.h"
#include "estimator/report/text.h"

namespace onnxfit {

// Each run begins a line with its status' word, PASS to ERROR; options.rows of the nodes that grew
// below it.  At most 80 columns wide, every line with its newline.
std::string ToText(const CheckAnswer& answer, const TextOptions& options = {});

}  // namespace onnxfit
