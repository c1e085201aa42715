// Names that are bound to a value without a call: "residual = x".  Internal to the room names/.
#pragma once

#include "estimator/names/bound_until.h"
#include "estimator/names/value_lives.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// "residual" of "x = residual + x", and "s" of "y = s.view(n)" and "y = windows(s, n)", where the
// line has no name that was bound to what it reads.  It holds the value until the name is bound
// anew, what is read by it next has been made, or forward returns.  O(statements²).
void FollowAliases(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                   ValueLives& lives);

}  // namespace onnxfit
