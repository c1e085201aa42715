// A check for CI servers that read JUnit's XML: Jenkins, GitLab, Azure, CircleCI, Buildkite.
#pragma once

#include <string>

#include "estimator/fit/check.h"

namespace onnxfit {

// A test case for each check: FAIL is a failure, ERROR an error, OFF and GONE are skipped.  WARN
// passes, for a server fails a build otherwise, and says so in its output.  As Jenkins'
// junit-10.xsd has it; without times.
std::string ToJunit(const CheckAnswer& answer);

}  // namespace onnxfit
