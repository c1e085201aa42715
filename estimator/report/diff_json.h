// What grew, for programs, schema 1.
#pragma once

#include <string>

#include "estimator/fit/diff.h"
#include "estimator/report/json.h"

namespace onnxfit {

// One object with a newline at its end:
//   {"schema", "version", "old": {…}, "new": {…}, "increase_bytes", "kinds": […], "nodes": […],
//    "peak_moved", "settings_changed": […]}
// `nodes` are all that changed, alike ones together, with the `names` of each.  It is absent where
// one side does not have them.
std::string ToJson(const Diff& diff, const JsonOptions& options);

}  // namespace onnxfit
