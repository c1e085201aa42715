// From what a model calls to what runs.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// `program` as PyTorch's dispatcher runs it: the casts of torch.autocast are calls, calls that
// it takes apart (linear, matmul, reshape, attention: how depends on types and strides) are
// their parts, and every value has the type and the strides that it has on the device.
// O(calls).
Program Dispatch(Program program, const TrainingSettings& settings);

}  // namespace onnxfit
