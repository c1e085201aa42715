// torch.nn.utils.clip_grad_norm_
#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/optimizers/optimizer_step.h"

namespace onnxfit {
namespace {

// Elements that one block of a foreach kernel takes: kChunkSize,
// aten/src/ATen/native/cuda/MultiTensorApply.cuh, pytorch v2.11.0.
constexpr int64_t kChunk = 65536;

class Clipping {
 public:
  Clipping(CallTable& calls, const ParameterGradients& gradients)
      : calls_(calls), machine_(calls.machine()), label_(machine_.AddLabel("clip_grad_norm")) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients.Has(i)) continue;
      const Tensor& gradient = machine_.tensor(gradients.at(i));
      dtype_ = gradient.dtype;
      types_.push_back({gradient.dtype, gradient.dims});
    }
  }

  TensorId Run() {
    if (types_.empty()) return kNoTensor;
    const NormOfNorms norm = TotalNorm(calls_, types_, label_);
    for (size_t i = norm.norms.size(); i-- > 0;) machine_.Release(norm.norms[i]);
    const TensorId total = norm.total;
    // max_norm / (total + 1e-6), in reciprocal and product; then the clamp.
    const TensorId sum = New(dtype_, {});
    const TensorId reciprocal = New(dtype_, {});
    const TensorId coefficient = New(dtype_, {});
    machine_.Release(reciprocal);
    machine_.Release(sum);
    const TensorId clamped = New(dtype_, {});
    for (const TensorId tensor : {coefficient, clamped}) machine_.Release(tensor);
    return total;
  }

 private:
  TensorId New(DType dtype, Dims dims) { return machine_.New({dtype, std::move(dims)}, label_); }

  CallTable& calls_;
  Machine& machine_;
  LabelId label_;
  DType dtype_ = DType::kFloat32;
  std::vector<TensorType> types_;  // of gradients
};

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

TensorId ClipGradNorm(CallTable& calls, const ParameterGradients& gradients) {
  return Clipping(calls, gradients).Run();
}

}  // namespace onnxfit
