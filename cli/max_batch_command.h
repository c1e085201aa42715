// `onnxfit max-batch`: the largest batch that one or more cards train.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes the report to `out`, or to the file that `options` name, and to `err`, where that is a
// terminal, what it is doing.  Returns the exit code
// of cli.md.  Throws Error, also where no card is named.
int RunMaxBatch(const Options& options, std::ostream& out, std::ostream& err);

}  // namespace onnxfit
