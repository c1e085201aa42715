// The step of GaLore, AdamW in few dimensions of a matrix's gradient:
//   for p in parameters:
//       grad = p.grad
//       if "rank" in group:
//           grad = projector.project(grad, step)   # finds a basis with torch.linalg.svd
//       make states like grad, update them
//       norm_grad = exp_avg / exp_avg_sq.sqrt()
//       if "rank" in group: norm_grad = projector.project_back(norm_grad)
//       p.add_(norm_grad)
// Bases are found in every step here; with update_proj_gap=200 each 200th step is such one.
// Source: galore-torch 1.0, adamw.py and galore_projector.py, with proj_type="std".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

class GaLore {
 public:
  // `matrices`, by parameter: the shape of those that are projected (Program).  `label` is
  // that of temporaries.
  GaLore(CallTable& calls, LabelId label, std::vector<Dims> matrices, int64_t rank)
      : calls_(calls),
        machine_(calls.machine()),
        label_(label),
        matrices_(std::move(matrices)),
        rank_(rank) {}

  // One turn of the loop, with a gradient of that type.
  void Turn(size_t parameter, const std::string& name, const TensorType& gradient);

  // step() has returned: what its names held is gone.
  void Return();

 private:
  struct State {
    TensorId basis = kNoTensor;  // projector.ortho_matrix
    LabelId label = 0;           // the basis's
    bool has_moments = false;
  };
  // Of torch.linalg.svd.
  struct Factors {
    TensorId u = kNoTensor;
    TensorId s = kNoTensor;
    TensorId vh = kNoTensor;
  };
  // Names of step(), which hold what they were bound to until the next turn binds them.
  struct Names {
    TensorId gradient = kNoTensor;
    TensorId denominator = kNoTensor;
    TensorId update = kNoTensor;
  };

  TensorId New(Dims dims, DType dtype) { return New(std::move(dims), dtype, label_); }
  TensorId New(Dims dims, DType dtype, LabelId label);
  TensorId NewProduct(Dims dims, DType dtype);
  void MakeMoment(const TensorType& type, const std::string& name);
  void Release(TensorId tensor);
  void Bind(TensorId& name, TensorId tensor);
  TensorType Project(State& state, const TensorType& matrix);
  void ProjectBack(const TensorType& matrix);
  Factors Decompose(const Dims& dims, LabelId projector);
  TensorId FindBasis(const TensorType& matrix, LabelId projector);

  CallTable& calls_;
  Machine& machine_;
  LabelId label_;
  std::vector<Dims> matrices_;
  int64_t rank_;
  std::map<size_t, State> states_;  // by parameter
  Names names_;
};

}  // namespace onnxfit
