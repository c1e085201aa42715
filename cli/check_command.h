// `onnxfit check`: the CI gate.
#pragma once

#include <iosfwd>

#include "cli/options.h"

namespace onnxfit {

// Writes the answer in all formats asked for, and the lock where --update says so; returns the exit
// code.  What keeps one check from an answer, or all of them from a comparison, is a row of the
// answer: the others are still answered.  Throws Error where there is nothing to answer.
int RunCheck(const Options& options, std::ostream& out);

}  // namespace onnxfit
