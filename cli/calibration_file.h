// Files of what was measured on cards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "estimator/base/calibration.h"

namespace onnxfit {

// Of the current folder: estimate, max-batch and verify read it where nobody says otherwise, and
// verify --save writes it.
inline constexpr std::string_view kCalibrationName = "onnxfit.calibration.json";
inline constexpr std::string_view kNoCalibration = "none";

// Throws Error with the file for one that is not there, cannot be read or is none.
std::vector<SharedCalibration> ReadCalibrationFile(const std::string& path);

// Puts `calibration` into the file, which need not be there, beside what it has of other cards,
// drivers and libraries.  All of it or nothing.  Throws Error, also where the file is none.
void SaveCalibration(const std::string& path, const Calibration& calibration);

// What the run has a say of: nothing with --cudnn, else the file of --calibration, or else, for
// estimate, max-batch and verify, that of the current folder if there is one.
std::vector<SharedCalibration> CalibrationsFor(const Options& options);

}  // namespace onnxfit
