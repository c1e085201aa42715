// The groups that an optimizer is given its parameters in.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct ParameterGroup {
  std::vector<size_t> parameters;  // by index into program.parameters
  bool decays = true;              // weight_decay is not set to 0 for it
  bool uses_muon = false;          // use_muon, of ultralytics' MuSGD
};

// Those of `settings`, which may be the loop's: in the order in which they are stepped.  None is
// empty.  O(calls + parameters).
std::vector<ParameterGroup> ParameterGroupsOf(const Program& program,
                                              const TrainingSettings& settings);

}  // namespace onnxfit
