// `onnxfit gpus`: the cards of the table.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes the cards that match the filters of `options` to `out`, or to the file that they name.
// Returns the exit code of cli.md.  Throws Error, also where no card matches.
int RunGpus(const Options& options, std::ostream& out);

}  // namespace onnxfit
