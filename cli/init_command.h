// onnxfit init
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes onnxfit.toml into the folder of `options`, with a check for each .onnx file below it,
// and what it wrote to `out`.  Returns the exit code.  Throws Error where there is one already,
// unless forced, or no model.
int RunInit(const Options& options, std::ostream& out);

}  // namespace onnxfit
