// What of a program can be trained.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/onnx/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Throws Error, with the reason, where loss.backward() would raise one for every batch: no
// output of floats, weights of integers (whatever biases there are), no parameter, all of them
// frozen, or none on the way to the loss.  Does nothing in eval and without a loss.
void CheckTrainable(const Graph& graph, const Program& program, const TrainingSettings& settings);

}  // namespace onnxfit
