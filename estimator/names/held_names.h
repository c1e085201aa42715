// What lives beyond a step.  Internal to the room names/.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// By value: whether it is the module's own, made in the first step alone, or what the loop keeps.
std::vector<bool> HeldNames(const Program& program, const TrainingSettings& settings);

}  // namespace onnxfit
