// --alloc-conf: the language of PYTORCH_ALLOC_CONF.
#pragma once

#include "cli/values.h"
#include "estimator/base/framework.h"
#include "estimator/fit/estimate.h"

namespace onnxfit {

// KEY:VALUE,KEY:VALUE as PyTorch 2.11 reads them (c10/core/AllocatorConfig.cpp and
// c10/cuda/CUDAAllocatorConfig.cpp): spaces are free, the last of equal keys counts.  Throws
// Error for what PyTorch refuses, for keys that `framework` does not have, for a backend or a
// reserve that is not modelled, and for numbers with something behind them, which PyTorch
// ignores.
AllocConf ParseAllocConf(const Typed& typed,
                         const FrameworkProfile& framework = DefaultFramework());

}  // namespace onnxfit
