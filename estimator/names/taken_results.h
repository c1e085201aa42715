// What a loop takes out of what its layers return, in lines that make no call: "outputs = block(x,
// bias)", "bias = outputs[2]".  Internal to the room names/.
#pragma once

#include "estimator/names/value_lives.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// Where a turn makes something beside its result that the last turn reads, and turns between have
// bound the line's only name anew, another name of the same forward holds it.  As each turn binds
// that one to what it was given, it holds it until the forward returns.  O(calls + statements ×
// log).
void FollowTakenResults(const Program& program, const ModuleCall& module, ValueLives& lives);

}  // namespace onnxfit
