// When Python's names let go of their values.  Internal to the room program/.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Fills AtenCall::last_reads and AtenCall::dies.  A value lives until the last call that
// reads it has returned and every module call that it was passed into has returned too:
// the caller's frame holds the arguments.  Where the file shows the statements, the name
// that one binds ("x = …") holds its value until another has bound it, or forward returns.
// The model's outputs, being arguments of the loss function, live until that returns; with
// `hold_outputs` a name of the loop holds them longer.
// O(calls × depth of modules).
void PlaceDeaths(Program& program, bool hold_outputs);

}  // namespace onnxfit
