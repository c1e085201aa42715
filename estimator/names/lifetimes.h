// When Python's names let go of their values.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Fills AtenCall::last_reads and AtenCall::dies.  A value lives until the last call that
// reads it has returned and every module call that it was passed into has returned too:
// the caller's frame holds the arguments.  Where the file shows the statements, the name
// that one binds ("x = …") holds its value until another has bound it, or forward returns.
// The model's outputs, being arguments of the loss function, live until that returns; in inference
// and with `loop.hold_outputs` a name of the loop holds them longer.  Modules of classes that were
// watched (observed/) make the casts that they were seen to make, and let go as they did.
// `is_as_written` where the file has calls in place and casts as such.  REQUIRES: a program whose
// calls are all written (FinishProgram).  O(calls × depth of modules), and as ForwardMatches.
void PlaceDeaths(Program& program, const TrainingSettings& settings, bool is_as_written = false);

}  // namespace onnxfit
