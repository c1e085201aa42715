// A card as cuDNN has it described, to plan for one that is not there (9.8 and later).
#pragma once

#include <cstddef>
#include <string>

#include "estimator/absent/card.h"

namespace onnxfit::absent {

// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; cuDNN names what it misses (9.19.0).  `cuda_version`
// is that of the runtime that cuDNN was built with.
std::string CudnnPropertiesOf(const AbsentCard& card, size_t cuda_version);

}  // namespace onnxfit::absent
