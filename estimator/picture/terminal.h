// Pictures for a terminal: memory over a step in block letters, and the model as a tree.
#pragma once

#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// How many points of a curve a terminal shows; what --timeline asks the estimate for.
inline constexpr size_t kTerminalPoints = 66;

// What is allocated over the step of the peak: ten lines high, what stays from step to step apart
// from the rest, its phases and its peak named below.  At most 80 columns wide.  "" without a
// curve.
std::string TimelineText(const Estimate& estimate, const TextOptions& options);

// Modules by their place in the model: parameters, what their tensors, gradients and states take,
// what they have made that is alive at the peak, their share of it.  Neighbours with a number that
// take the same are one line; those below a hundredth of the peak are left out, but with
// options.verbose.  At most 80 columns wide.  "" without modules.
std::string TreeText(const Estimate& estimate, const TextOptions& options);

}  // namespace onnxfit
