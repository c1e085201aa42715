// Advice as JSON for programs.  Internal to the room report/.
#pragma once

#include <vector>

#include "estimator/fit/advice.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {

// [{"change", "flags", "effect", "max_batch", "accumulate", "verdict", "used_bytes", "saved_bytes",
// "cost", "cost_class", "why"}], all of them; what is not known is absent.
Json AdviceJson(const std::vector<Advice>& advice);

}  // namespace onnxfit
