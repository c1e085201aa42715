// What a statement of several targets holds beside the value of the forward that it calls, told by
// the names that both use.  Internal to the room names/.
#pragma once

#include <vector>

#include "estimator/names/bound_until.h"
#include "estimator/names/returned_weights.h"
#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// "x, mask = self.embed(x)": where the forward that it calls has a name "mask", too, that is taken
// to be what it returns, or "attention_mask", and for "_" what nothing reads, else the one name
// that it has beside its result's; until the next turn of a loop returns its own.  Names that
// are known to hold `weights` are left out.  `modules` are those of `runs`, in that order.
// O(modules × (statements + weights)).
void FollowSameNames(const Program& program, const ModuleRuns& runs, const NameBindings& bindings,
                     const std::vector<ModuleCall>& modules,
                     const std::vector<HeldWeights>& weights, ValueLives& lives);

}  // namespace onnxfit
