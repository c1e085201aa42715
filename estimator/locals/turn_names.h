// What turns of a loop over layers bind, of files that show no lines.  Internal to the room
// locals/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Adds to `names`, of the outermost forward where it calls no methods (CallsMethods): what it makes
// in each turn and reads twice, which has a name until the next turn binds it anew: q of
// "z = 1 / (q @ k.sum(1)); out = (q @ context) * z".  Not what it makes and reads more often than
// that, in a function whose names are gone, nor what a last reader may bind anew, "x = x + y".
// What `names` tell from `known` on is told by rows.  O(steps²).
void FindTurnNames(const Program& program, const ModuleRuns& runs, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names);

}  // namespace onnxfit
