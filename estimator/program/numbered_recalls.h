// Modules that are called again, by TorchScript's names.  Internal to the room program/.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Marks the scopes of calls as MarkRecalls does, where lines are missing.  TorchScript's exporter
// numbers a module's calls in the names of its own nodes, "/m/layer_1/Add", not in those of its
// children: "/m/layer/fc_1/MatMul" (pytorch v2.11.0, jit/passes/onnx/naming.cpp).  So the
// second run of "m.layer", which its own nodes show, becomes "layer@1" around both, and its
// children lose their numbers.  A module without nodes of its own runs as often as the one
// around it, or as those that it loops over.  O(calls × depth of modules).
void MarkNumberedRecalls(Program& program);

}  // namespace onnxfit
