// The largest batch that a program runs on a card, found by running it.
#pragma once

#include <iosfwd>

#include "cli/batch_trials.h"
#include "cli/options.h"
#include "cli/program_trial.h"
#include "estimator/report/program_search.h"

namespace onnxfit {

TrialLimits LimitsOf(const Options& options);

// Runs `trial` with batches in the place of {} in its words (cli/batch_trials.h), each of so many
// steps.  Says each in a line to `told`, unless that is null.  Throws Error where no word has a {},
// and where a run fails for another reason than memory.
ProgramSearch SearchBatch(ProgramTrial trial, const TrialLimits& limits, std::ostream* told,
                          std::ostream& err);

}  // namespace onnxfit
