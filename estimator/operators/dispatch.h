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

// The first call of a dispatched program that PyTorch has no kernel for in the type of its input;
// null where there is none.  O(calls).
const AtenCall* FindRefused(const Program& program);

// Whether it has a call that PyTorch would have no kernel for in `type`.  O(calls).
bool HasNoKernelsIn(DType type, const Program& program);

}  // namespace onnxfit
