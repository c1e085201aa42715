// From flags to the cards that an answer is for.
#pragma once

#include <vector>

#include "cli/options.h"

namespace onnxfit {

// Fills request.targets, and the device that the run's kernels are for: the first target's, in
// explain-oom the one that was measured; with what was measured on them.  Throws Error as
// MakeTarget and CalibrationsFor do.
void SetTargets(Options& options);

// The exit code of cli.md for what was found of the targets.
int ExitCodeOf(const std::vector<Judgement>& judgements, const Options& options);

}  // namespace onnxfit
