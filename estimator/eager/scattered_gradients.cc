#include "estimator/eager/scattered_gradients.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/eager/kernel_scratch.h"
#include "estimator/eager/strides.h"

namespace onnxfit {

namespace {

constexpr StreamId kScatterStream = 2;  // reduce_and_partition_stream

}  // namespace

ScatteredGradients::ScatteredGradients(CallTable& calls, ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      gradients_(gradients),
      world_(calls.settings().ranks.world),
      label_(machine_.AddLabel("ZeRO")) {
  const Program& program = calls.program();
  for (const NameId name : program.parameters) type_ = program.values[Index(name)].type.dtype;
}

int64_t ScatteredGradients::ElementsOf(size_t parameter) const {
  const Program& program = calls_.program();
  return Numel(program.values[Index(program.parameters[parameter])].type.dims);
}

int64_t ScatteredGradients::PartOf(size_t parameter) const {
  return (ElementsOf(parameter) + world_ - 1) / world_;
}

int64_t ScatteredGradients::Parts(const std::vector<size_t>& parameters) const {
  int64_t elements = 0;
  for (const size_t i : parameters) elements += PartOf(i);
  return elements;
}

TensorId ScatteredGradients::New(DType type, int64_t elements, Kind kind) const {
  return machine_.New({type, {elements}}, label_, kind);
}

void ScatteredGradients::Construct() {
  if (gradients_.size() == 0) return;
  bucket_ = New(type_, calls_.settings().ranks.reduce_bucket, Kind::kGradient);
  int64_t elements = 0;
  for (size_t i = 0; i < gradients_.size(); ++i) elements += PartOf(i);
  parts_ = New(type_, elements, Kind::kGradient);
}

// reduce_independent_p_g_buckets_and_remove_grads: those larger than the bucket stay where they
// are.
void ScatteredGradients::Take(size_t parameter) {
  const int64_t size = calls_.settings().ranks.reduce_bucket;
  const int64_t elements = ElementsOf(parameter);
  if (in_bucket_ + elements > size && in_bucket_ > 0) Reduce();
  if (in_bucket_ + elements <= size) {
    const Program& program = calls_.program();
    const Dims& dims = program.values[Index(program.parameters[parameter])].type.dims;
    const TensorId view = machine_.View(bucket_, dims, ContiguousStrides(dims));
    gradients_.Drop(parameter, machine_);
    gradients_.Set(parameter, view);
  }
  in_bucket_ += elements;
  reducing_.push_back(parameter);
}

// __reduce_and_partition_ipg_grads
void ScatteredGradients::Reduce() {
  if (reducing_.empty()) return;
  machine_.UseStream(kScatterStream);
  Scatter();
  machine_.UseStream(kMainStream);
  for (const size_t i : std::exchange(reducing_, {})) gradients_.Drop(i, machine_);
  in_bucket_ = 0;
}

// reduce_scatter_coalesced: the ranks' parts in a row; one gradient that ranks share evenly is sent
// as it is.
void ScatteredGradients::Scatter() const {
  if (reducing_.size() == 1 && ElementsOf(reducing_[0]) % world_ == 0) return;
  const std::vector<TensorId> paddings = NewPaddings();
  const TensorId together = New(type_, Parts(reducing_) * world_, Kind::kTemporary);
  for (const TensorId padding : paddings) machine_.Release(padding);
  machine_.Release(together);
}

// Rank by rank, in the order of parameters.
std::vector<TensorId> ScatteredGradients::NewPaddings() const {
  std::vector<TensorId> paddings;
  std::vector<size_t> sorted = reducing_;
  std::ranges::sort(sorted);
  for (int64_t rank = 0; rank < world_; ++rank) {
    for (const size_t i : sorted) {
      const int64_t part = PartOf(i);
      const int64_t missing = part - std::clamp<int64_t>(ElementsOf(i) - rank * part, 0, part);
      if (missing > 0) paddings.push_back(New(type_, missing, Kind::kTemporary));
    }
  }
  return paddings;
}

// Of each in 64 bits (get_norm_dtype of zero/utils.py).
void ScatteredGradients::PassNorms(const std::vector<size_t>& parameters) const {
  std::vector<TensorId> norms;
  for (const size_t i : parameters) {
    const Dims dims = {PartOf(i)};
    const TensorId cast = machine_.New({DType::kFloat64, dims}, label_);
    norms.push_back(machine_.New({DType::kFloat64, {}}, label_));
    PassScratch(machine_, SumOver(DType::kFloat64, dims, {1}, 0), calls_.settings().device, label_);
    machine_.Release(cast);
  }
  for (const TensorId norm : norms) machine_.Release(norm);
}

// One alone is no copy; in 32 bits is none, either.
void ScatteredGradients::Flatten(const std::vector<size_t>& parameters) {
  TensorId flat = kNoTensor;
  if (parameters.size() == 1) {
    const Dims dims = {PartOf(parameters[0])};
    flat = machine_.View(parts_, dims, ContiguousStrides(dims));
  } else {
    flat = New(type_, Parts(parameters), Kind::kGradient);
  }
  if (type_ != DType::kFloat32) {
    const TensorId before =
        std::exchange(flat, New(DType::kFloat32, Parts(parameters), Kind::kGradient));
    machine_.Release(before);
  }
  gradients_.Set(parameters[0], flat);
}

}  // namespace onnxfit
