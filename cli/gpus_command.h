// `onnxfit gpus`: the cards of the table, or of this machine.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes the cards that match the filters of `options`, or those of this machine (--detect), to
// `out`, or to the file that they name.  Returns the exit code of cli.md.  Throws Error, also where
// no card matches, and NoGpuError where this machine has none.
int RunGpus(const Options& options, std::ostream& out);

}  // namespace onnxfit
