// `onnxfit diff`: what grew between two models, reports or states of a repository.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/options.h"

namespace onnxfit {

// Writes the answer and returns the exit code.  `reading` is what is being read, for errors.
int RunDiff(const Options& options, std::ostream& out, std::string& reading);

}  // namespace onnxfit
