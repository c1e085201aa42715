// What forwards put into lists that nothing reads: features of a pyramid and their positions.
// Internal to the room names/.
#pragma once

#include <vector>

#include "estimator/names/bound_until.h"
#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// "states += (x,)" makes no call and is in no file.  But where a line calls a module in
// each turn of a loop whose result nothing reads, that is put into a list, as is what the line
// before has made, of which it has the positions; and the outermost forward returns the lists.
// O(calls × inputs + statements²).
void FollowUnreadLists(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
                       const std::vector<ModuleCall>& modules, ValueLives& lives);

}  // namespace onnxfit
