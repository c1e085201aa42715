// When Python's names let go of their values, where a run was watched.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What Python let go of once the last call that `where` stands for had returned, in order.
struct ObservedDeaths {
  std::string where;  // AtenCall::where
  std::vector<NameId> values;
  std::vector<NameId> of_step_before;  // as the step before made them
  std::vector<NameId> drops = {};      // parameters whose gradients it let go of
};

// What was observed of a program: `deaths` of all calls of the file, in order, also of those that
// run nothing, and what nobody was seen to let go of.
struct ObservedLives {
  std::vector<ObservedDeaths> deaths;
  std::vector<NameId> kept;
};

// As PlaceDeaths (lifetimes.h), by what was observed.  What one call makes for another within
// itself lives until that has read it.  O(calls × depth of modules).
void PlaceObservedDeaths(Program& program, const TrainingSettings& settings,
                         const ObservedLives& observed);

}  // namespace onnxfit
