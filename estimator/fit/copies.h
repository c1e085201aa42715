// Several copies of a model in one process, one context for all.  Internal to the room fit/.
#pragma once

#include <cstdint>

#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

// How many fit, each asked in turn for a batch: their parameters stay, the rest is shared.
// Found by halving, each count played.  REQUIRES: one fits.  O(log) plays.
int64_t MostCopies(const PlayableRun& run, const Target& target);

}  // namespace onnxfit
