// When Python's names let go of values, as modules of the same classes did when they were watched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/observed/known_skeletons.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct KnownDeaths {
  std::vector<std::optional<int64_t>>
      behind;        // by NameId: the call; nullopt where nothing is known
  size_t known = 0;  // forwards that one was known for
  size_t all = 0;
};

// Each forward beside the skeleton of its class that has most in common with it; where a file names
// no classes, that of the module around it names them, or its children do.
// O(calls × skeletons of a class), and as Align for each that differs.
KnownDeaths FindKnownDeaths(const Program& program, const ModuleRuns& runs,
                            const KnownSkeletons& known);

}  // namespace onnxfit
