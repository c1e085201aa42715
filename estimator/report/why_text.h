// The life of a tensor as text.  Internal to the room report/.
#pragma once

#include <string>

#include "estimator/fit/why.h"
#include "estimator/report/page.h"

namespace onnxfit {

// "step 2, forward, at /conv1/Conv", "setup".
std::string InstantText(const Instant& instant);

// The same without the step.
std::string PhaseText(const Instant& instant);

// A block of lines for each tensor, `page.options.rows` at most, or why there is none.
std::string WhyText(const Page& page, const WhyAnswer& why);

}  // namespace onnxfit
