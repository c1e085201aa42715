// Whose workspaces an estimate has for convolutions.
#pragma once

#include <cstdint>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"

namespace onnxfit {

// "as measured on …", "as cuDNN 9.19.0 chooses for …", "those of an H200 in 40 …"; "" where nothing
// asks cuDNN for a convolution and nothing else was measured on the card.
std::string CudnnAssumption(const Prediction& prediction, const EstimateRequest& request);

// What cuDNN may ask for beyond the trace, at most; 0 where the user says that it does not run.
int64_t OpenCudnnBytes(const Program& program, const TrainingSettings& settings);

// Whose plans torch.backends.cudnn.benchmark keeps; "" without it, and where nothing is convolved.
std::string BenchmarkAssumption(const Prediction& prediction, const TrainingSettings& settings);

}  // namespace onnxfit
