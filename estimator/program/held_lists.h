// What the lists hold that names hold.  Internal to the room program/.
#pragma once

#include <cstddef>

#include "estimator/program/bound_until.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"
#include "estimator/program/value_lives.h"

namespace onnxfit {

// What torch.cat is given by the list's name in statement `index`, and what that appends and
// nothing takes out again.  O(its calls + statements).
void FollowLists(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                 size_t index, ValueLives& lives);

}  // namespace onnxfit
