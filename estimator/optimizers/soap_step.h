// The step of SOAP, Adam in the eigenbases of Shampoo's preconditioner:
//   for p in parameters:
//       if "Q" not in state: make states, GG and Q, and leave p as it is
//       else: project p.grad, update exp_avg and p, update GG and Q
// Bases are updated in every step here; with precondition_frequency=10 each tenth step is such one.
// Source: nikhilvyas/SOAP at a1e553530fde97d0e6b307d7c82ac6d38b072340, soap.py, with its defaults.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

class Soap {
 public:
  // `label` is that of temporaries.
  Soap(CallTable& calls, LabelId label) : calls_(calls), machine_(calls.machine()), label_(label) {}

  // One turn of the loop, with a gradient of that type, which is taken to be contiguous and in
  // fp32.  Throws Error where it is not fp32.
  void Turn(size_t parameter, const std::string& name, const TensorType& gradient);

  // step() has returned: what its names held is gone.
  void Return();

 private:
  struct State {
    TensorId average = kNoTensor;  // exp_avg
    TensorId squares = kNoTensor;  // exp_avg_sq
    std::vector<TensorId> bases;   // Q, by dimension
  };
  // Names of step(), which hold what they were bound to until the next turn binds them.
  struct Names {
    TensorId projected = kNoTensor;
    TensorId average = kNoTensor;
    TensorId squares = kNoTensor;
    TensorId denominator = kNoTensor;
    TensorId average_projected = kNoTensor;
    TensorId update = kNoTensor;
  };

  // Names of get_orthogonal_matrix_QR.
  struct QrNames {
    TensorId eigenvalues = kNoTensor;
    TensorId order = kNoTensor;
    TensorId sorted = kNoTensor;
    TensorId power = kNoTensor;
    TensorId upper = kNoTensor;
  };

  TensorId New(Dims dims, DType dtype = DType::kFloat32);
  TensorId NewProduct(Dims dims);
  TensorId NewState(Dims dims, const std::string& name);
  TensorId Share(TensorId tensor);
  void Release(TensorId tensor);
  void Bind(TensorId& name, TensorId tensor);
  void Store(TensorId& state, TensorId made);

  void Begin(State& state, const std::string& name, const Dims& dims);
  void Update(State& state, const Dims& dims);
  TensorId Project(TensorId own, const Dims& dims);
  void AddOuterProducts(const Dims& dims);
  TensorId FindBasis(int64_t side, TensorId& eigenvalues);
  void UpdateBases(State& state, const Dims& dims);
  TensorId UpdateBasis(QrNames& names, TensorId& squares, size_t dim, const Dims& dims);

  CallTable& calls_;
  Machine& machine_;
  LabelId label_;
  std::map<size_t, State> states_;  // by parameter
  Names names_;
  TensorId outer_ = kNoTensor;  // a name of update_preconditioner
};

}  // namespace onnxfit
