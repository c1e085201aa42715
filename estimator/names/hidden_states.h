// What models return though nothing reads all of it: the states of all layers where one of them is
// read behind their loop, and the last hidden state beside what is pooled of it.
// Internal to the room names/.
#pragma once

#include <vector>

#include "estimator/names/bound_until.h"
#include "estimator/names/value_lives.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// "outputs.hidden_states[2]": a library that gives out states of layers collects those of all of
// them, and what the first one was given; each is held as long as the name of the forward that
// reads one first.  "last_hidden_state = self.norm(x)" of a forward that goes on is a field of what
// it returns, and what a tower makes of what "self.get_image_features(x)" returns.  `modules` are
// those of `runs`, in that order.  O(calls + modules × statements).
void FollowHiddenStates(const Program& program, const ModuleRuns& runs,
                        const NameBindings& bindings, const std::vector<ModuleCall>& modules,
                        ValueLives& lives);

}  // namespace onnxfit
