// Why a name stands for no tensor of the device.  Internal to the room fit/.
#pragma once

#include <string>

#include "estimator/fit/predict.h"
#include "estimator/fit/tensor_names.h"

namespace onnxfit {

// One sentence, without its full stop: folded into another call, a number on the host, a
// gradient that needs no memory of its own …  REQUIRES: no buffer of the run is `tensor`.
std::string WhyAbsent(const Prediction& prediction, const NamedTensor& tensor);

}  // namespace onnxfit
