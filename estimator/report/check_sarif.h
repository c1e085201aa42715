// A check for viewers of static analysis: SARIF 2.1.0 (OASIS), as GitHub's code scanning reads it.
#pragma once

#include <string>
#include <string_view>

#include "estimator/fit/check.h"

namespace onnxfit {

// One run; a result for each FAIL, ERROR (errors) and WARN (a warning), at the check's line of the
// config.  `version` is onnxfit's.
std::string ToSarif(const CheckAnswer& answer, std::string_view version);

// `path` as a URI: relative ones stay relative, "/a b" is "file:///a%20b".
std::string UriOf(std::string_view path);

}  // namespace onnxfit
