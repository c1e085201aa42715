// Gradients of embedding(sparse=True), which few optimizers take.
#pragma once

#include <cstdint>
#include <vector>

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

// Whether a step joins rows of which data say how many differ.  O(calls).
bool JoinsRows(const Program& program, const TrainingSettings& settings);

// Gradients of embedding(sparse=True), as a step takes them: grad.coalesce() sorts the indices and
// sums up rows of equal ones; what the step makes of the rows lasts until the next parameter's are
// joined, or the step returns.  How many rows differ the data say: as many as there can be, all
// that were looked up or the whole table.
// Source: coalesce_sparse_cuda of aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu and
// torch/optim/{_functional,adagrad}.py, pytorch v2.11.0; torch 2.11 events, of no row.
class JoinedRows {
 public:
  JoinedRows(CallTable& calls, const TrainingSettings& settings, LabelId label)
      : calls_(calls), settings_(settings), label_(label) {}
  ~JoinedRows() { Forget(); }
  JoinedRows(const JoinedRows&) = delete;
  JoinedRows& operator=(const JoinedRows&) = delete;

  // Of a gradient of type `rows` of a table of `table_rows`: `blocks` tensors of the joined rows.
  void Step(const TensorType& rows, int64_t table_rows, int blocks);

 private:
  void Forget();

  CallTable& calls_;
  const TrainingSettings& settings_;
  LabelId label_;
  std::vector<TensorId> held_;
};

}  // namespace onnxfit
