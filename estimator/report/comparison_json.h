// A comparison within another answer.  Internal to the room report/.
#pragma once

#include "estimator/fit/compare.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {

// {"old", "new", "increase_bytes", "kinds", "nodes", "peak_moved", "settings_changed"}
Json ComparisonJson(const Comparison& comparison);

}  // namespace onnxfit
