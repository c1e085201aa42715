// The modules of a model with the tensors that are their own, for libraries that hook every one.
#pragma once

#include <vector>

#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct HookedRun {
  int32_t module = 0;  // index into HookedModules::parameters
  CallSpan span = {};
};

struct HookedModules {
  // By module, the whole model first.  Those of the model's list whose names lie in the module's
  // path and in no other module's, and those that its own calls read, or its forward beside them
  // (OutsideReader): a weight that several have is of each.  Indices into the list.
  std::vector<std::vector<size_t>> parameters = {};
  // By module: whether it is taken for a whole, whose parts have no hooks (IsLeafForward).
  std::vector<bool> are_leaves = {};
  // All but the whole model's, in the order in which they begin, the outer before the inner.
  std::vector<HookedRun> runs = {};
};

// Of the calls before `model_end`; calls outside of all modules that read `parameters` are taken
// for modules of their own, as layers are.  O(calls × depth of modules + parameters).
HookedModules FindHookedModules(const Program& program, size_t model_end,
                                const std::vector<NameId>& parameters);

}  // namespace onnxfit
