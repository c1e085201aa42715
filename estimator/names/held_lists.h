// What the lists hold that names hold.  Internal to the room names/.
#pragma once

#include <cstddef>

#include "estimator/names/bound_until.h"
#include "estimator/names/value_lives.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// What torch.cat is given by the list's name in statement `index`, and what that appends and
// nothing takes out again.  O(its calls + statements).
void FollowLists(const Program& program, const NameBindings& bindings, const ModuleCall& module,
                 size_t index, ValueLives& lives);

// Lists to which lines without a call append: "for stage in stages: x = stage(x); xs.append(x)".
// Where a line reads what several turns of a loop have made, each when a later turn has bound its
// name anew, they are in a list with what all turns have made, and nothing takes them out.
// O(statements² × calls).
void FollowHiddenLists(const Program& program, const NameBindings& bindings,
                       const ModuleCall& module, ValueLives& lives);

// Whether the statement makes a list that others take from: "xs = [f(x)]", "y = xs.pop()".
bool MakesListToTakeFrom(const Program& program, const ModuleCall& module,
                         const Statement& statement);

}  // namespace onnxfit
