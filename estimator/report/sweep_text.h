// A table over combinations as a page for people.
#pragma once

#include <string>

#include "estimator/fit/sweep.h"
#include "estimator/report/text.h"

namespace onnxfit {

// The answer in a line, then a row for each combination with what varies, its figures and its
// verdicts, then what all rows share, said once, and what some of them do.  At most 80 columns
// wide: where a row is wider, its targets go below one another, then what varies to a line of
// its own.  With options.quiet the first line alone.  O(rows × sentences).
std::string ToText(const SweepAnswer& answer, const TextOptions& options = {});

}  // namespace onnxfit
