// The updates that ultralytics' MuSGD makes orthogonal: matrices of as many columns in one batch.
#pragma once

#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

// Matrices that one call takes, with rows of zeros below smaller ones.
struct MuonBatch {
  int64_t count = 0;
  int64_t rows = 0;  // of the largest
  int64_t columns = 0;

  bool operator==(const MuonBatch&) const = default;
};

// In the order in which they run.  A tensor of more than two dimensions is the matrix of its first.
std::vector<MuonBatch> MuonBatchesOf(const std::vector<TensorType>& gradients);

// muon_update(grads, momentums, nesterov=True): what holds its result, which the caller owns.  None
// of `gradients` is smaller than a matrix.  O(gradients × log gradients).
// Source: ultralytics 8.4.190, optim/muon.py.
std::vector<TensorId> MuonUpdates(CallTable& calls, const std::vector<TensorType>& gradients,
                                  LabelId label);

}  // namespace onnxfit
