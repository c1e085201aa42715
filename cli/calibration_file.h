// Files of what was measured on cards: read, and written by verify --save.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// The file in the current folder: estimate, max-batch, report and verify read it where nobody says
// otherwise, and verify --save writes it.
inline constexpr std::string_view kCalibrationName = "onnxfit.calibration.json";
inline constexpr std::string_view kNoCalibration = "none";

// Throws Error with the file for one that is not there, cannot be read or is none.
std::vector<SharedCalibration> ReadCalibrationFile(const std::string& path);

// Puts `calibration` into the file, which need not be there, beside what it has of other cards,
// drivers and libraries.  All of it or nothing.  Throws Error, also where the file is none.
void SaveCalibration(const std::string& path, const Calibration& calibration);

// What the run has a say of: nothing with --cudnn, else the file of --calibration, or else, for
// estimate, max-batch, report and verify, that of the current folder if there is one.
std::vector<SharedCalibration> CalibrationsFor(const Options& options);

// What follows is verify --save: what the card's libraries take, for later estimates.

// Says before the work is done what would keep its file from being written.  Throws Error.
void CheckSave(const Options& options);

// Measures the current device, asks for the workspaces of the run's convolutions, and puts both
// into the file of --calibration, or onnxfit.calibration.json here.  A line on `err` says what.
// Throws Error.
void MeasureAndSave(const Graph& graph, const EstimateRequest& request, const DetectedGpu& gpu,
                    const Options& options, std::ostream& err);

}  // namespace onnxfit
