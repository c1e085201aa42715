// verify --save: what the card's libraries take, for later estimates.
#pragma once

#include <iosfwd>

#include "cli/options.h"
#include "estimator/base/detected_gpu.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// Says before the work is done what would keep its file from being written.  Throws Error.
void CheckSave(const Options& options);

// Measures the current device, asks for the workspaces of the run's convolutions, and puts both
// into the file of --calibration, or onnxfit.calibration.json here.  A line on `err` says what.
// Throws Error.
void MeasureAndSave(const Graph& graph, const EstimateRequest& request, const DetectedGpu& gpu,
                    const Options& options, std::ostream& err);

}  // namespace onnxfit
