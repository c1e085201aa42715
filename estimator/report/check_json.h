// A check for programs, schema 1.
#pragma once

#include <string>

#include "estimator/fit/check.h"
#include "estimator/report/json.h"

namespace onnxfit {

// One object with a newline at its end:
//   {"schema", "version", "config", "against", "status", "counts": {"pass": …}, "checks": […],
//    "notes": […]}
// A check has name, model, line, status, text, error, device_bytes, budgets, allowed_bytes and,
// where it was compared, "comparison", with the fields of a diff.
std::string ToJson(const CheckAnswer& answer, const JsonOptions& options);

}  // namespace onnxfit
