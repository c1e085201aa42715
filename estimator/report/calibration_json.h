// onnxfit.calibration.json: what was measured on cards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/calibration.h"

namespace onnxfit {

// A line for each convolution, nothing of time or machine, with a newline at its end.  Sorted, as
// PutCalibration leaves it.
std::string ToJson(const std::vector<Calibration>& calibrations);

// In the same order.  Throws Error, without a file, with line and column where it is no JSON, and
// with the card, the convolution and the field where that is wrong.  Its hint is how to write it
// anew.
std::vector<Calibration> ReadCalibrations(std::string_view text);

}  // namespace onnxfit
