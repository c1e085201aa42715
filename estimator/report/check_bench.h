// A check as measurements over time: github-action-benchmark's "customSmallerIsBetter".
#pragma once

#include <string>

#include "estimator/fit/check.h"

namespace onnxfit {

// An array with an object for each check that has an answer: its bytes on the device, and with
// which settings.
std::string ToBench(const CheckAnswer& answer);

}  // namespace onnxfit
