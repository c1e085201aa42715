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

// Runs `trial` with batches in the place of {} in its words: doubled from the least one until one
// is too large, then what lies between is halved, along the line through the peaks where that is
// closer.  Some 5 to 12 runs.  Says each in a line to `err`.  Throws Error where no word has a {},
// where no multiple lies in the limits, and where a run fails for another reason than memory.
ProgramSearch SearchBatch(const ProgramTrial& trial, const ProgramLimits& limits,
                          std::ostream& err);

}  // namespace onnxfit
