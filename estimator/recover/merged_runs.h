// Calls of a module's second run that TorchScript's exporter has merged with those of its first
// one.  Internal to the room recover/.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Makes them anew, "x = self.cross(x, context=data)" in each turn of a loop, whose keys and values
// of the same data are the same: where the second run reads what is made inside of the first, and
// makes all but that as the first did.  A module that keeps what it has made of constants alone
// makes it once.  O(calls × depth of modules).
void RepeatMergedRuns(Program& program);

}  // namespace onnxfit
