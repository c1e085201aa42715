// `onnxfit estimate`: from a file to a report.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes the report to `out`, or to the file that `options` name.  Returns the exit code
// of cli.md.  Throws Error.
int RunEstimate(const Options& options, std::ostream& out);

}  // namespace onnxfit
