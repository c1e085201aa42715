// A check as annotations of a GitHub workflow.
#pragma once

#include <string>

#include "estimator/fit/check.h"

namespace onnxfit {

// Workflow commands, the worst first: errors for FAIL and ERROR, warnings for WARN, notices for NEW
// and GONE.  GitHub shows ten of a step; a plain line says how many more there are.  Then notes and
// the summary, as plain lines.
std::string ToGithub(const CheckAnswer& answer);

}  // namespace onnxfit
