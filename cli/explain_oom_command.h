// `onnxfit explain-oom`: from a log to what its out-of-memory message means.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/options.h"

namespace onnxfit {

// Writes the explanation to `out`, or to the file that `options` name.  `reading` is the file
// that errors without one are about.  Returns the exit code of cli.md.  Throws Error, also
// where the log has no message.
int RunExplainOom(const Options& options, std::ostream& out, std::string& reading);

}  // namespace onnxfit
