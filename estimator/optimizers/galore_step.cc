#include "estimator/optimizers/galore_step.h"

#include <algorithm>
#include <utility>

#include "estimator/workspaces/cusolver_workspaces.h"

namespace onnxfit {
namespace {

// Of "std": rows of Vh for a matrix that is as tall as wide or taller, else columns of U.
bool TakesRight(const Dims& dims) { return dims[0] >= dims[1]; }

}  // namespace

TensorId GaLore::New(Dims dims, DType dtype, LabelId label) {
  return machine_.New({dtype, std::move(dims)}, label);
}

TensorId GaLore::NewProduct(Dims dims, DType dtype) {
  const TensorId product = New(std::move(dims), dtype);
  calls_.TakeCublasWorkspace(Thread::kForward);
  return product;
}

void GaLore::MakeMoment(const TensorType& type, const std::string& name) {
  machine_.New(type, machine_.AddLabel(name), Kind::kOptimizerState);
}

void GaLore::Release(TensorId tensor) {
  if (tensor != kNoTensor) machine_.Release(tensor);
}

void GaLore::Bind(TensorId& name, TensorId tensor) { Release(std::exchange(name, tensor)); }

void GaLore::Turn(size_t parameter, const std::string& name, const TensorType& gradient) {
  State& state = states_[parameter];
  const bool is_projected = !matrices_[parameter].empty();
  const TensorType matrix = {gradient.dtype, matrices_[parameter]};
  Bind(names_.gradient, kNoTensor);  // grad = p.grad
  if (is_projected && !state.has_moments) state.label = machine_.AddLabel(name + ".projector");
  const TensorType moment = is_projected ? Project(state, matrix) : gradient;
  if (!std::exchange(state.has_moments, true)) {
    MakeMoment(moment, name + ".exp_avg");
    MakeMoment(moment, name + ".exp_avg_sq");
  }
  Bind(names_.denominator, New(moment.dims, moment.dtype));
  Bind(names_.update, New(moment.dims, moment.dtype));
  if (is_projected) ProjectBack(matrix);
}

void GaLore::Return() {
  for (TensorId* name : {&names_.gradient, &names_.denominator, &names_.update}) {
    Bind(*name, kNoTensor);
  }
}

// The type of what it binds: full_rank_grad @ ortho_matrix.t(), or ortho_matrix.t() @
// full_rank_grad.
TensorType GaLore::Project(State& state, const TensorType& matrix) {
  if (state.basis != kNoTensor) machine_.SetKind(state.basis, Kind::kTemporary);
  const TensorId basis = FindBasis(matrix, state.label);
  machine_.SetKind(basis, Kind::kOptimizerState);
  Bind(state.basis, basis);
  const int64_t rank = std::min({rank_, matrix.dims[0], matrix.dims[1]});
  TensorType projected = {matrix.dtype, {rank, matrix.dims[1]}};
  if (TakesRight(matrix.dims)) projected.dims = {matrix.dims[0], rank};
  Bind(names_.gradient, NewProduct(projected.dims, projected.dtype));
  return projected;
}

// norm_grad = (norm_grad @ ortho_matrix) * scale
void GaLore::ProjectBack(const TensorType& matrix) {
  const TensorId product = NewProduct(matrix.dims, matrix.dtype);
  const TensorId scaled = New(matrix.dims, matrix.dtype);
  Release(product);
  Bind(names_.update, scaled);
}

// torch.linalg.svd(matrix, full_matrices=False) in fp32, of a copy of the matrix.
GaLore::Factors GaLore::Decompose(const Dims& dims, LabelId projector) {
  const int64_t smaller = std::min(dims[0], dims[1]);
  Factors factors;
  factors.u = New({dims[0], smaller}, DType::kFloat32, TakesRight(dims) ? label_ : projector);
  factors.vh = New({smaller, dims[1]}, DType::kFloat32, TakesRight(dims) ? projector : label_);
  factors.s = New({smaller}, DType::kFloat32);
  const TensorId info = New({}, DType::kInt32);
  const TensorId copy = New(dims, DType::kFloat32);
  Release(New({SvdWorkspaceBytes(dims[0], dims[1])}, DType::kUint8));
  Release(copy);
  // (info != 0).any(): whether it has converged.
  const TensorId differs = New({}, DType::kBool);
  Release(New({}, DType::kBool));
  Release(differs);
  Release(info);
  return factors;
}

// get_orthogonal_matrix: the rows or columns are a view of all of Vh or U in fp32.
TensorId GaLore::FindBasis(const TensorType& matrix, LabelId projector) {
  const auto [rows, columns] = std::pair(matrix.dims[0], matrix.dims[1]);
  const int64_t rank = std::min({rank_, rows, columns});
  const bool is_right = TakesRight(matrix.dims);
  const bool is_fp32 = matrix.dtype == DType::kFloat32;
  const TensorId in_fp32 = is_fp32 ? kNoTensor : New(matrix.dims, DType::kFloat32);
  const Factors factors = Decompose(matrix.dims, projector);
  // A = U[:, :rank] @ torch.diag(s[:rank]), or B = torch.diag(s[:rank]) @ Vh[:rank, :]: nobody
  // reads it.
  const TensorId diagonal = New({rank, rank}, DType::kFloat32);
  const TensorId unread =
      NewProduct(is_right ? Dims{rows, rank} : Dims{rank, columns}, DType::kFloat32);
  Release(diagonal);
  TensorId basis = is_right ? factors.vh : factors.u;
  if (is_fp32) {
    machine_.Retain(basis);
  } else {
    basis = New(is_right ? Dims{rank, columns} : Dims{rows, rank}, matrix.dtype, projector);
  }
  for (const TensorId name : {in_fp32, factors.u, factors.s, factors.vh, unread}) Release(name);
  return basis;
}

}  // namespace onnxfit
