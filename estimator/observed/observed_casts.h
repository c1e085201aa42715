// Casts that a file has lost, as modules of the same classes were watched to make them.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/observed/known_skeletons.h"
#include "estimator/program/program.h"

namespace onnxfit {

// In 16 bits and under autocast: each forward of `program` whose class was watched so makes the
// casts that it made then, to these types, and no others.  In fp32 none does anything, and nothing
// changes.  Before deaths are placed.  O(calls × depth), and as ForwardMatches.
void PlaceObservedCasts(Program& program, const TrainingSettings& settings,
                        const KnownSkeletons& known, bool is_as_written);

}  // namespace onnxfit
