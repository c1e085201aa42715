// Which cards this machine has.  No CUDA in this header: without the toolkit there is an answer,
// too (no_toolkit.cc).
#pragma once

#include "estimator/base/detected_gpu.h"

namespace onnxfit {

// All cards that CUDA shows, in its order; else why there is none.  Starts CUDA on each of them,
// which takes some 100 ms and the memory of a context, for as long as the process lives.
GpuSearch FindGpus();

}  // namespace onnxfit
