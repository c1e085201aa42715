// Modules that are called again and again.  Internal to the room program/.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Numbers the module calls of a module that runs again right behind its last call: "m.layer@1"
// is the second call of "m.layer", which names alone do not tell from the first (ALBERT's layers
// are one).  Signal: the source goes back to the line with which the module's forward began, and
// calls the same child there.  The caller that repeats it is the nearest one that does not call
// it by the name of a loop ("layer (x)", where self.layers holds other modules).
// Needs the lines of all forwards around a call.  O(calls × depth of modules).
void MarkRecalls(Program& program);

}  // namespace onnxfit
