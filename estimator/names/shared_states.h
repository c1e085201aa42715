// Keys and values that attention puts into a dict, by kind of layer, for layers further on.
// Internal to the room names/.
#pragma once

#include <vector>

#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// The last layer of each kind puts what its names hold into the dict (StoredNames in libraries.h),
// which a name of the forward holds that calls the layers.  Layers are of one kind whose attention
// reads the same of what was made before: rotary embeddings, a mask.  What names hold has to be
// known.  `modules` are those of `runs`, in that order.  Fills Program::stored.  O(calls × log).
void FollowSharedStates(Program& program, const ModuleRuns& runs,
                        const std::vector<ModuleCall>& modules, ValueLives& lives);

}  // namespace onnxfit
