// What cuDNN may ask for beyond a trace.
#pragma once

#include <cstdint>

#include "estimator/program/program.h"

namespace onnxfit {

// An upper guess at the largest workspace of one call: copies of input, weight and output in the
// layout of cuDNN's kernels (NHWC ones run on NCHW tensors through such copies; what heuristics
// choose is not published).  0 where no call asks cuDNN.
// REQUIRES: `program` as Dispatch leaves it.  Throws Error where that needs more than 63 bits.
int64_t MostCudnnWorkspaceBytes(const Program& program);

}  // namespace onnxfit
