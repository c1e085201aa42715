#include "estimator/ranks/scattered_gradients.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/operators/strides.h"

namespace onnxfit {

namespace {

constexpr StreamId kScatterStream = 2;  // reduce_and_partition_stream

}  // namespace

ScatteredGradients::ScatteredGradients(CallTable& calls, ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      gradients_(gradients),
      rank_(calls),
      world_(calls.settings().ranks.world) {}

int64_t ScatteredGradients::PartOf(size_t parameter) const {
  return (rank_.ElementsOf(parameter) + world_ - 1) / world_;
}

int64_t ScatteredGradients::Parts(const std::vector<size_t>& parameters) const {
  int64_t elements = 0;
  for (const size_t i : parameters) elements += PartOf(i);
  return elements;
}

void ScatteredGradients::Construct() {
  if (gradients_.size() == 0) return;
  bucket_ = rank_.New(rank_.type(), calls_.settings().ranks.reduce_bucket, Kind::kGradient);
  if (calls_.settings().ranks.zero_offload) return;
  int64_t elements = 0;
  for (size_t i = 0; i < gradients_.size(); ++i) elements += PartOf(i);
  parts_ = rank_.New(rank_.type(), elements, Kind::kGradient);
}

// reduce_independent_p_g_buckets_and_remove_grads: those larger than the bucket stay where they
// are.
void ScatteredGradients::Take(size_t parameter) {
  const int64_t size = calls_.settings().ranks.reduce_bucket;
  const int64_t elements = rank_.ElementsOf(parameter);
  if (in_bucket_ + elements > size && in_bucket_ > 0) Reduce();
  if (in_bucket_ + elements <= size) {
    const Dims& dims = rank_.DimsOf(parameter);
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
  const TensorId together = Scatter();
  if (calls_.settings().ranks.zero_offload) {
    for (const size_t i : reducing_) SendToHost(i);
  }
  if (together != kNoTensor) machine_.Release(together);
  machine_.UseStream(kMainStream);
  for (const size_t i : std::exchange(reducing_, {})) gradients_.Drop(i, machine_);
  in_bucket_ = 0;
}

// reduce_scatter_coalesced: the ranks' parts in a row; one gradient that ranks share evenly is sent
// as it is.
TensorId ScatteredGradients::Scatter() const {
  if (reducing_.size() == 1 && rank_.ElementsOf(reducing_[0]) % world_ == 0) return kNoTensor;
  const std::vector<TensorId> paddings = NewPaddings();
  const TensorId together = rank_.New(rank_.type(), Parts(reducing_) * world_, Kind::kTemporary);
  for (const TensorId padding : paddings) machine_.Release(padding);
  return together;
}

// partition_grads: what the host has is read back, to add to it; of the step's last micro-batch,
// its norm (_constant_buffered_norm2), and a copy in 32 bits on its way.
void ScatteredGradients::SendToHost(size_t parameter) {
  constexpr int64_t kAtOnce = 250'000'000;  // elements
  const int64_t elements = PartOf(parameter);
  const TensorId back = rank_.New(rank_.type(), elements, Kind::kTemporary);
  if (rank_.IsLastMicroBatch()) {
    const TensorId norm = rank_.NormOf(std::min(elements, kAtOnce));
    const TensorId square = rank_.NewNorm();
    machine_.Release(norm);
    rank_.KeepNorm(rank_.NewNorm());
    machine_.Release(square);
    rank_.PassIn32Bits(elements);
  }
  machine_.Release(back);
}

void ScatteredGradients::EndBackward() {
  Reduce();
  rank_.EndMicroBatch();
}

// Rank by rank, in the order of parameters.
std::vector<TensorId> ScatteredGradients::NewPaddings() const {
  std::vector<TensorId> paddings;
  std::vector<size_t> sorted = reducing_;
  std::ranges::sort(sorted);
  for (int64_t rank = 0; rank < world_; ++rank) {
    for (const size_t i : sorted) {
      const int64_t part = PartOf(i);
      const int64_t missing =
          part - std::clamp<int64_t>(rank_.ElementsOf(i) - rank * part, 0, part);
      if (missing > 0) paddings.push_back(rank_.New(rank_.type(), missing, Kind::kTemporary));
    }
  }
  return paddings;
}

void ScatteredGradients::PassNorms(const std::vector<size_t>& parameters) const {
  std::vector<int64_t> elements;
  for (const size_t i : parameters) elements.push_back(PartOf(i));
  rank_.PassNorms(elements);
}

// One alone is no copy; in 32 bits is none, either.
void ScatteredGradients::Flatten(const std::vector<size_t>& parameters) {
  if (calls_.settings().ranks.zero_offload) return;
  TensorId flat = kNoTensor;
  if (parameters.size() == 1) {
    const Dims dims = {PartOf(parameters[0])};
    flat = machine_.View(parts_, dims, ContiguousStrides(dims));
  } else {
    flat = rank_.New(rank_.type(), Parts(parameters), Kind::kGradient);
  }
  if (rank_.type() != DType::kFloat32) {
    const TensorId before =
        std::exchange(flat, rank_.New(DType::kFloat32, Parts(parameters), Kind::kGradient));
    machine_.Release(before);
  }
  gradients_.Set(parameters[0], flat);
}

}  // namespace onnxfit
