// Modules that are called again and again.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Numbers the module calls of a module that runs again right behind its last call: "m.layer@1"
// is the second call of "m.layer", which names alone do not tell from the first (ALBERT's layers
// are one).  Signal: the source goes back to the line with which the module's forward began, and
// calls the same child there.  The caller that repeats it is the nearest one that does not call
// it by the name of a loop ("layer (x)", where self.layers holds other modules).
// Needs the lines of all forwards around a call.  O(calls × depth of modules).
void MarkRepeatedModules(Program& program);

// Marks the scopes of calls as MarkRepeatedModules does, where lines are missing.  TorchScript's
// exporter numbers a module's calls in the names of its own nodes, "/m/layer_1/Add", not in those
// of its children: "/m/layer/fc_1/MatMul" (pytorch v2.11.0, jit/passes/onnx/naming.cpp).  So the
// second run of "m.layer", which its own nodes show, becomes "layer@1" around both, and its
// children lose their numbers.  A module without nodes of its own runs as often as the one
// around it, or as those that it loops over.  O(calls × depth of modules).
void MarkNumberedModules(Program& program);

}  // namespace onnxfit
