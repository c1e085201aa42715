// Which cards this machine has.  No CUDA in this header: without the toolkit there is an answer,
// too (no_toolkit.cc).
#pragma once

#include <optional>

#include "estimator/base/device.h"

namespace onnxfit {

// All cards that CUDA shows, in its order, or that of index `only`; else why there is none.  One
// that gives this process no context says why.  Starts CUDA on each of them, which takes some
// 100 ms and the memory of a context, for as long as the process lives.
GpuSearch FindGpus(std::optional<int> only = {});

}  // namespace onnxfit
