// The answer of a check in each format that was asked for.
#pragma once

#include <iosfwd>

#include "cli/options.h"
#include "estimator/fit/check.h"

namespace onnxfit {

// Standard output has text unless a format is for it.  Files are written over, their folders made.
// Throws Error where one cannot be written, after all others are.
void WriteOutputs(const CheckAnswer& answer, const Options& options, std::ostream& out);

}  // namespace onnxfit
