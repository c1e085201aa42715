// What a version of PyTorch does not have.
#pragma once

#include "estimator/base/settings.h"

namespace onnxfit {

// Throws Error, naming the flag and the first version, where `settings` ask for it.
void CheckVersion(const TrainingSettings& settings);

}  // namespace onnxfit
