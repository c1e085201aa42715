// What a table cannot be.
#pragma once

#include "cli/options.h"

namespace onnxfit {

// Throws Error where lists make too many combinations, or stand where one run is asked for.
void CheckSweep(const Options& options);

}  // namespace onnxfit
