#include "estimator/optimizers/soap_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/operators/strides.h"
#include "estimator/workspaces/cusolver_workspaces.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostSide = 10000;  // max_precond_dim

// Vectors have none (precondition_1d=False).
bool HasBasis(const Dims& dims, size_t dim) { return dims.size() > 1 && dims[dim] <= kMostSide; }

// Whether tensordot copies a contiguous operand, whose dimension `dim` goes before all others, or
// behind them, to make a matrix of it.
bool CopiesToMultiply(const Dims& dims, size_t dim, bool goes_before) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != dim) order.push_back(static_cast<int64_t>(i));
  }
  order.insert(goes_before ? order.begin() : order.end(), static_cast<int64_t>(dim));
  const int64_t rest = Numel(dims) / std::max<int64_t>(dims[dim], 1);
  const Dims matrix = goes_before ? Dims{dims[dim], rest} : Dims{rest, dims[dim]};
  const StridedType permuted = {{DType::kFloat32, Permuted(dims, order)},
                                Permuted(ContiguousStrides(dims), order)};
  return !StridesOfView(permuted, matrix).possible;
}

}  // namespace

TensorId Soap::New(Dims dims, DType dtype) {
  return machine_.New({dtype, std::move(dims)}, label_);
}

TensorId Soap::NewProduct(Dims dims) {
  const TensorId product = New(std::move(dims));
  calls_.TakeCublasWorkspace(Thread::kForward);
  return product;
}

TensorId Soap::NewState(Dims dims, const std::string& name) {
  return machine_.New({DType::kFloat32, std::move(dims)}, machine_.AddLabel(name),
                      Kind::kOptimizerState);
}

TensorId Soap::Share(TensorId tensor) {
  machine_.Retain(tensor);
  return tensor;
}

void Soap::Release(TensorId tensor) {
  if (tensor != kNoTensor) machine_.Release(tensor);
}

void Soap::Bind(TensorId& name, TensorId tensor) { Release(std::exchange(name, tensor)); }

// state[…] = made; what it was before may have other names for a while.
void Soap::Store(TensorId& state, TensorId made) {
  if (state != kNoTensor) machine_.SetKind(state, Kind::kTemporary);
  machine_.SetKind(made, Kind::kOptimizerState);
  Bind(state, made);
}

void Soap::Turn(size_t parameter, const std::string& name, const TensorType& gradient) {
  if (gradient.dtype != DType::kFloat32) {
    throw Error({.where = "--precision",
                 .text = fmt::format("expected parameters in fp32 with soap, which averages "
                                     "products of theirs in fp32, found '{}' in another type",
                                     name),
                 .hint = "-p fp32 or amp-bf16"});
  }
  State& state = states_[parameter];
  state.average == kNoTensor ? Begin(state, name, gradient.dims) : Update(state, gradient.dims);
}

void Soap::Return() {
  for (TensorId* name : {&names_.projected, &names_.average, &names_.squares, &names_.denominator,
                         &names_.average_projected, &names_.update}) {
    Bind(*name, kNoTensor);
  }
}

// init_preconditioner, then update_preconditioner without Q.
void Soap::Begin(State& state, const std::string& name, const Dims& dims) {
  state.average = NewState(dims, name + ".exp_avg");
  state.squares = NewState(dims, name + ".exp_avg_sq");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (HasBasis(dims, i)) NewState({dims[i], dims[i]}, name + ".GG");
  }
  AddOuterProducts(dims);
  TensorId eigenvalues = kNoTensor;
  for (size_t i = 0; i < dims.size(); ++i) {
    state.bases.push_back(HasBasis(dims, i) ? FindBasis(dims[i], eigenvalues) : kNoTensor);
  }
  Release(eigenvalues);
  Bind(outer_, kNoTensor);
}

// _, Q = torch.linalg.eigh(m + 1e-30 * torch.eye(…)); Q = torch.flip(Q, [1])
TensorId Soap::FindBasis(int64_t side, TensorId& eigenvalues) {
  const Dims dims = {side, side};
  TensorId shifted = New(dims);
  for (int i = 0; i < 2; ++i) Bind(shifted, New(dims));
  const TensorId vectors = New(dims);
  const TensorId values = New({side});
  const TensorId info = New({}, DType::kInt32);
  Release(New({EighWorkspaceBytes(side)}, DType::kUint8));
  Release(info);
  Release(shifted);
  Bind(eigenvalues, values);
  const TensorId flipped = New(dims);
  machine_.SetKind(flipped, Kind::kOptimizerState);
  Release(vectors);
  return flipped;
}

// What one contraction after the other makes of a tensor that the caller has still a name for, or
// that it hands over as `own`: a view of it where there are no bases.
TensorId Soap::Project(TensorId own, const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (HasBasis(dims, i)) Bind(own, NewProduct(dims));
  }
  return own;
}

// GG[i].lerp_(outer_product): products of the gradient with itself.
void Soap::AddOuterProducts(const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!HasBasis(dims, i)) continue;
    const TensorId first = CopiesToMultiply(dims, i, /*goes_before=*/true) ? New(dims) : kNoTensor;
    const TensorId second =
        CopiesToMultiply(dims, i, /*goes_before=*/false) ? New(dims) : kNoTensor;
    const TensorId product = NewProduct({dims[i], dims[i]});
    Release(second);
    Release(first);
    Bind(outer_, product);
  }
}

void Soap::Update(State& state, const Dims& dims) {
  Bind(names_.projected, Project(kNoTensor, dims));
  Bind(names_.average, Share(state.average));
  Bind(names_.squares, Share(state.squares));
  Release(New(dims));  // grad_projected.square()
  Bind(names_.denominator, New(dims));
  Bind(names_.average_projected, Share(state.average));
  Bind(names_.update, Project(New(dims), dims));
  // update_preconditioner: exp_avg goes back, and into the bases that come out of it.
  const TensorId back = Project(kNoTensor, dims);
  if (back != kNoTensor) Store(state.average, back);
  AddOuterProducts(dims);
  UpdateBases(state, dims);
  const TensorId average = Project(kNoTensor, dims);
  if (average != kNoTensor) Store(state.average, average);
  Bind(outer_, kNoTensor);
}

// get_orthogonal_matrix_QR
void Soap::UpdateBases(State& state, const Dims& dims) {
  QrNames names;
  TensorId squares = Share(state.squares);
  std::vector<TensorId> bases;
  for (size_t i = 0; i < dims.size(); ++i) {
    bases.push_back(HasBasis(dims, i) ? UpdateBasis(names, squares, i, dims) : kNoTensor);
  }
  Store(state.squares, squares);
  for (const TensorId name :
       {names.eigenvalues, names.order, names.sorted, names.power, names.upper}) {
    Release(name);
  }
  for (size_t i = 0; i < bases.size(); ++i) {
    if (bases[i] != kNoTensor) Store(state.bases[i], bases[i]);
  }
}

TensorId Soap::UpdateBasis(QrNames& names, TensorId& squares, size_t dim, const Dims& dims) {
  const int64_t side = dims[dim];
  const Dims square = {side, side};
  // est_eig = torch.diag(o.T @ m @ o); sort_idx = torch.argsort(est_eig)
  TensorId product = NewProduct(square);
  Bind(product, NewProduct(square));
  Bind(names.eigenvalues, New({side}));
  Release(product);
  const TensorId values = New({side});
  Bind(names.order, New({side}, DType::kInt64));
  Release(values);
  // exp_avg_sq = exp_avg_sq.index_select(…); o = o[:, sort_idx]; power_iter = m @ o
  Bind(squares, New(dims));
  Bind(names.sorted, New(square));
  Bind(names.power, NewProduct(square));
  // Q, _ = torch.linalg.qr(power_iter)
  const TensorId basis = New(square);
  const TensorId upper = New(square);
  const TensorId tau = New({side});
  const TensorId info = New({}, DType::kInt32);
  Release(New({QrWorkspaceBytes(side)}, DType::kUint8));
  Release(info);
  Release(tau);
  Bind(names.upper, upper);
  return basis;
}

}  // namespace onnxfit
