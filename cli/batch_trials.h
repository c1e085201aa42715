// The largest batch that runs, found by running batch after batch.
#pragma once

#include <cstdint>
#include <functional>

#include "cli/options.h"
#include "estimator/fit/target.h"
#include "estimator/report/tried_batches.h"

namespace onnxfit {

struct TrialLimits {
  int64_t least = 1;
  int64_t most = 1;
  int64_t multiple_of = 1;
  bool is_strict = false;  // what is TIGHT does not count
  bool is_exact = false;   // no batch is left open between what runs and what does not
};

// Multiples of what --multiple-of says, up to --max, else `most`.
TrialLimits LimitsAsAsked(const Options& options, int64_t most);

// Tries batches: along the line through the peaks of the last two that fit until one is too large,
// then between what runs and what does not, where each try that does not halve it is followed by
// the middle.  Some 4 to 8 tries.  Where the largest that runs is TIGHT, the largest that fits is
// looked for as well.  `run` runs one and returns how its worst card is.  Throws Error where no
// multiple lies in the limits.
TriedBatches TryBatches(const TrialLimits& limits, const std::function<JudgedTarget(int64_t)>& run);

}  // namespace onnxfit
