// Gradients of embedding(sparse=True), which few optimizers take.  Internal to the room
// optimizers/.
#pragma once

#include "estimator/base/settings.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/machine.h"
#include "estimator/program/program.h"

namespace onnxfit {

// By index into program.parameters: whether its gradient is sparse, which it is where every call
// that reads it looks rows up by embedding(sparse=True).  O(calls).
std::vector<bool> HaveSparseGradients(const Program& program);

// Throws Error where the optimizer does not take the gradients that the program gives it.
// Source: torch/optim/*.py, pytorch v2.11.0.
void CheckSparseGradients(const Program& program, const TrainingSettings& settings);

// grad.coalesce(): indices are sorted, so that rows of equal ones are summed up.  How many differ
// the data say: what is made of those rows is not counted.
// Source: coalesce_sparse_cuda of aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu, pytorch
// v2.11.0, and torch 2.11 events.
void JoinRows(CallTable& calls, const TrainingSettings& settings, int64_t rows, LabelId label);

}  // namespace onnxfit
