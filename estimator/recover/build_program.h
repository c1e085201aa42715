// From a graph to the program that PyTorch runs.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/parameters/roles.h"
#include "estimator/program/program.h"
#include "estimator/recover/findings.h"

namespace onnxfit {

// Lowers each unit of nodes to the calls that PyTorch would run, and puts back what the export has
// lost.  Host arithmetic is dropped.  Throws Error where settings.loss_output names no output or a
// glob of settings.freeze no parameter.  O(nodes).
Program BuildProgram(const Findings& found, const Roles& roles, const TrainingSettings& settings);

}  // namespace onnxfit
