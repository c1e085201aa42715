// A command to copy.
#pragma once

#include <string>

#include "cli/options.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

// "onnxfit estimate MODEL …": what was typed of the run and its card, changed by `advice`, at the
// batch that it gives.  What the environment and the config say is said there all the same.
// REQUIRES: `advice` has flags and a batch.
std::string RecipeOf(const Options& options, const Advice& advice);

}  // namespace onnxfit
