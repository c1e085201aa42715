// `onnxfit verify`: the estimate, carried out on the card at hand.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes what was predicted beside what was measured to `out`, or to the file that `options`
// name; how far it has come to `err`, where that is a terminal.  Returns the exit code of cli.md.
// Throws Error; NoGpuError where there is no card.
int RunVerify(const Options& options, std::ostream& out, std::ostream& err);

}  // namespace onnxfit
