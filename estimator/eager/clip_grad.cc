// torch.nn.utils.clip_grad_norm_
#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/eager/kernel_scratch.h"
#include "estimator/eager/optimizer_step.h"

namespace onnxfit {
namespace {

// Elements that one block of a foreach kernel takes: kChunkSize,
// aten/src/ATen/native/cuda/MultiTensorApply.cuh, pytorch v2.11.0.
constexpr int64_t kChunk = 65536;

class Clipping {
 public:
  Clipping(CallTable& calls, const ParameterGradients& gradients)
      : machine_(calls.machine()),
        with_offsets_(calls.settings().framework.norms_with_offsets),
        device_(calls.settings().device),
        label_(machine_.AddLabel("clip_grad_norm")) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients.Has(i)) continue;
      const Tensor& gradient = machine_.tensor(gradients.at(i));
      dtype_ = gradient.dtype;
      const int64_t chunks = RoundUp(Numel(gradient.dims), kChunk) / kChunk;
      most_chunks_ = std::max(most_chunks_, chunks);
      all_chunks_ = CheckedAdd(all_chunks_, chunks);
      ++count_;
    }
  }

  TensorId Run() {
    if (count_ == 0) return kNoTensor;
    const TensorId total = TotalNorm();
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

  // The norm of all is the norm of the gradients' norms, stacked.
  TensorId TotalNorm() {
    const std::vector<TensorId> norms = Norms();
    const TensorId stack = New(dtype_, {count_});
    const TensorId total = New(dtype_, {});
    PassScratch(machine_, SumOver(dtype_, {count_}, {1}, /*kept=*/0), device_, label_);
    machine_.Release(stack);
    for (size_t i = norms.size(); i-- > 0;) machine_.Release(norms[i]);
    return total;
  }

  // _foreach_norm: a partial sum for each chunk.  Each gradient has as many of them as the
  // largest, or as it needs, where a table says which chunks are whose.
  std::vector<TensorId> Norms() {
    const DType accumulator = dtype_ == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const TensorId offsets = with_offsets_ ? New(DType::kInt64, {count_ + 1}) : kNoTensor;
    const int64_t chunks = with_offsets_ ? all_chunks_ : CheckedMul(count_, most_chunks_);
    const TensorId partial = New(accumulator, {chunks});
    std::vector<TensorId> norms;
    for (int64_t i = 0; i < count_; ++i) norms.push_back(New(dtype_, {}));
    machine_.Release(partial);
    if (offsets != kNoTensor) machine_.Release(offsets);
    return norms;
  }

  Machine& machine_;
  bool with_offsets_;
  const DeviceProfile& device_;
  LabelId label_;
  DType dtype_ = DType::kFloat32;
  int64_t count_ = 0;        // gradients
  int64_t most_chunks_ = 0;  // of one
  int64_t all_chunks_ = 0;
};

}  // namespace

TensorId ClipGradNorm(CallTable& calls, const ParameterGradients& gradients) {
  return Clipping(calls, gradients).Run();
}

}  // namespace onnxfit
