// A check for GitLab's code quality widget.
#pragma once

#include <string>

#include "estimator/fit/check.h"

namespace onnxfit {

// An array with an object for each ERROR (critical), FAIL (major) and WARN (minor).
std::string ToGitlab(const CheckAnswer& answer);

}  // namespace onnxfit
