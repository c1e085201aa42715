// What of a program can be trained.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/graph/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Parameters to which no gradient flows from the loss: no call leads from them to it through
// floats alone.  REQUIRES: the program has a loss.  O(calls).
std::vector<NameId> UnreachedParameters(const Program& program);

// Throws Error, with the reason, where loss.backward() would raise one for every batch: no
// output of floats, weights of integers (whatever biases there are), no parameter, all of them
// frozen, or none on the way to the loss.  Does nothing in eval and without a loss.
void CheckTrainable(const Graph& graph, const Program& program, const TrainingSettings& settings);

}  // namespace onnxfit
