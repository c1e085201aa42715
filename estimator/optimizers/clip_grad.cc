// torch.nn.utils.clip_grad_norm_
#include <algorithm>
#include <numeric>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/optimizers/optimizer_step.h"

namespace onnxfit {
namespace {

// Elements that one block of a foreach kernel takes: kChunkSize,
// aten/src/ATen/native/cuda/MultiTensorApply.cuh, pytorch v2.11.0.
constexpr int64_t kChunk = 65536;

LabelId LabelOfClipping(CallTable& calls) { return calls.machine().AddLabel("clip_grad_norm"); }

}  // namespace

// A partial sum for each chunk.  Each tensor has as many of them as the largest, or as it needs,
// where a table says which chunks are whose.
std::vector<TensorId> ForeachNorms(CallTable& calls, const std::vector<TensorType>& tensors,
                                   LabelId label) {
  Machine& machine = calls.machine();
  const bool with_offsets = calls.settings().framework.norms_with_offsets;
  const int64_t count = static_cast<int64_t>(tensors.size());
  int64_t most_chunks = 0;
  int64_t all_chunks = 0;
  for (const TensorType& tensor : tensors) {
    const int64_t chunks = RoundUp(Numel(tensor.dims), kChunk) / kChunk;
    most_chunks = std::max(most_chunks, chunks);
    all_chunks = CheckedAdd(all_chunks, chunks);
  }
  const DType dtype = tensors[0].dtype;
  const DType accumulator = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const TensorId offsets =
      with_offsets ? machine.New({DType::kInt64, {count + 1}}, label) : kNoTensor;
  const int64_t chunks = with_offsets ? all_chunks : CheckedMul(count, most_chunks);
  const TensorId partial = machine.New({accumulator, {chunks}}, label);
  std::vector<TensorId> norms;
  for (int64_t i = 0; i < count; ++i) norms.push_back(machine.New({dtype, {}}, label));
  machine.Release(partial);
  if (offsets != kNoTensor) machine.Release(offsets);
  return norms;
}

NormOfNorms TotalNorm(CallTable& calls, const std::vector<TensorType>& tensors, LabelId label) {
  Machine& machine = calls.machine();
  NormOfNorms norm = {.norms = ForeachNorms(calls, tensors, label)};
  const DType dtype = tensors[0].dtype;
  const int64_t count = static_cast<int64_t>(tensors.size());
  const TensorId stack = machine.New({dtype, {count}}, label);
  norm.total = machine.New({dtype, {}}, label);
  const SumShape sum = SumOver(dtype, {count}, {1}, /*kept=*/0);
  PassScratch(machine, sum, calls.settings().device, label);
  machine.Release(stack);
  return norm;
}

TensorId NormOfGradients(CallTable& calls, const ParameterGradients& gradients,
                         const std::vector<size_t>& parameters) {
  Machine& machine = calls.machine();
  std::vector<TensorType> types;
  for (const size_t i : parameters) {
    if (!gradients.Has(i)) continue;
    const Tensor& gradient = machine.tensor(gradients.at(i));
    types.push_back({gradient.dtype, gradient.dims});
  }
  if (types.empty()) return kNoTensor;
  const NormOfNorms norm = TotalNorm(calls, types, LabelOfClipping(calls));
  for (size_t i = norm.norms.size(); i-- > 0;) machine.Release(norm.norms[i]);
  return norm.total;
}

// max_norm / (total + 1e-6), in reciprocal and product; then the clamp.
void ScaleToNorm(CallTable& calls, DType dtype) {
  Machine& machine = calls.machine();
  const LabelId label = LabelOfClipping(calls);
  const TensorId sum = machine.New({dtype, {}}, label);
  const TensorId reciprocal = machine.New({dtype, {}}, label);
  const TensorId coefficient = machine.New({dtype, {}}, label);
  machine.Release(reciprocal);
  machine.Release(sum);
  const TensorId clamped = machine.New({dtype, {}}, label);
  for (const TensorId tensor : {coefficient, clamped}) machine.Release(tensor);
}

TensorId ClipGradNorm(CallTable& calls, const ParameterGradients& gradients) {
  std::vector<size_t> all(gradients.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const TensorId norm = NormOfGradients(calls, gradients, all);
  if (norm != kNoTensor) ScaleToNorm(calls, calls.machine().tensor(norm).dtype);
  return norm;
}

}  // namespace onnxfit
