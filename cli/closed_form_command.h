// `onnxfit estimate` of a model that is given by its numbers instead of a file.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// What of the numbers is missing, and what does not go with them.  Throws Error.
void CheckNumbers(const Options& options);

// Writes the closed form; returns the exit code.  Throws Error.
int RunClosedForm(const Options& options, std::ostream& out);

}  // namespace onnxfit
