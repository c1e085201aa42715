// What a line passes to a function, "q, k = rotate(q, k)", and to a method of its own as a module
// makes it: "x + self.attend(self.norm(x))".
// Internal to the room names/.
#pragma once

#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// The caller's names hold what the function is given until it returns.  The method's parameter
// holds it until the method returns, or binds it anew, which no line shows:
// held to the end.  A module that is called so is no method.  O(calls of the statements).
void FollowPassedResults(const Program& program, const ModuleRuns& runs, const ModuleCall& module,
                         ValueLives& lives);

}  // namespace onnxfit
