// Calibrations made up, for tests of what they change.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/cards.h"
#include "estimator/fit/predict.h"
#include "estimator/operators/cudnn_convolutions.h"

namespace onnxfit {

inline constexpr char kMeasuredCard[] = "NVIDIA A100-SXM4-40GB";

// Of that card, with a context of 300 MiB and those workspaces.
inline Calibration CalibrationOf(std::vector<ConvolutionWorkspace> workspaces) {
  std::vector<Calibration> all;
  PutCalibration({.card = kMeasuredCard,
                  .compute_capability = 80,
                  .multiprocessors = 108,
                  .driver = "580.65.06",
                  .cuda = "13.0",
                  .cublas = "13.1.0",
                  .cudnn = "9.19.0",
                  .loaded = {{"context", int64_t{250} << 20}, {"kernels", int64_t{50} << 20}},
                  .convolutions = std::move(workspaces)},
                 all);
  return all[0];
}

// The first convolution asks for `bytes`, the second for twice as much, and so on.
inline std::vector<ConvolutionWorkspace> Workspaces(const std::vector<Convolution>& convolutions,
                                                    int64_t bytes) {
  std::vector<ConvolutionWorkspace> workspaces;
  for (const Convolution& convolution : convolutions) {
    const auto number = static_cast<int64_t>(workspaces.size()) + 1;
    workspaces.push_back({convolution, number * bytes});
  }
  return workspaces;
}

// The convolutions of a run.
inline std::vector<Convolution> ConvolutionsIn(const Graph& graph, const EstimateRequest& request) {
  return ConvolutionsOf(Predict(graph, request).program);
}

inline SharedCalibration Shared(Calibration calibration) {
  return std::make_shared<const Calibration>(std::move(calibration));
}

// The card of the table, with what was measured on it.
inline DeviceProfile MeasuredDevice(const SharedCalibration& calibration) {
  return Calibrated(FindCard(kMeasuredCard)->device, calibration);
}

}  // namespace onnxfit
