// A check as a job's summary, or as a comment on a pull request.
#pragma once

#include <string>
#include <string_view>

#include "estimator/fit/check.h"

namespace onnxfit {

// The first line of a report: a script finds its own comment by it.
inline constexpr std::string_view kCheckMarker = "<!-- onnxfit-check -->";

// All in a line, a table with the worst first, and what is to be said of each that does not pass.
// Passing ones beyond twenty are a number.  No longer than GitHub takes a comment, unless names are
// very long.
std::string ToMarkdown(const CheckAnswer& answer);

}  // namespace onnxfit
