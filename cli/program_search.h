// The largest batch that a program runs on a card, found by running it.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "cli/options.h"
#include "cli/program_trial.h"
#include "estimator/report/program_search.h"

namespace onnxfit {

struct ProgramLimits {
  int64_t least = 1;
  int64_t most = 1;
  int64_t multiple_of = 1;
  bool is_strict = false;  // what is TIGHT does not count
  bool is_brief = false;   // no line for each run
};
ProgramLimits LimitsOf(const Options& options);

// Runs `trial` with batches in the place of {} in its words: along the line through the peaks of
// the last two that fit until one is too large, then between what runs and what does not, where
// each try that does not halve it is followed by the middle.  Some 4 to 8 runs.  Where the largest
// that runs is TIGHT, the largest that fits is looked for as well.  Says each in a line to `err`.
// Throws Error where no word has a {}, where no multiple lies in the limits, and where a run fails
// for another reason than memory.
ProgramSearch SearchBatch(const ProgramTrial& trial, const ProgramLimits& limits,
                          std::ostream& err);

}  // namespace onnxfit
