// Embedding.  Sources: pytorch v2.6.0 derivatives.yaml (embedding_dense_backward) and
// aten/src/ATen/native/cuda/{Embedding,EmbeddingBackwardKernel}.cu; sizes of what the sort takes
// from torch 2.11 events, 3,073 to 200,000 indices, on a card with 108 multiprocessors.
#include <algorithm>

#include "estimator/eager/op_families.h"
#include "estimator/eager/strides.h"

namespace onnxfit {
namespace {

// More indices are sorted, so that those of one row are summed up together.
constexpr int64_t kMostUnsorted = 3072;

constexpr int64_t kScanBytes = 1279;  // of thrust's scans and copies

TensorType IndexCopy(const CallTypes& call) {
  if (IsContiguous(call.in(1))) return {};
  return call.in(1);
}

TensorType Indices(int64_t count) { return {DType::kInt64, {count}}; }
TensorType Bytes(int64_t count) { return {DType::kUint8, {count}}; }

// Keys and values once more, histograms, and what blocks of 3840 keys tell one another.
int64_t SortBytes(int64_t count) {
  const int64_t sorted = (8 * count + 255) / 256 * 256;
  return 2 * sorted + 16895 + 1024 * ((count + 3839) / 3840);
}

// Sums of up to 10 indices each, then sums of those.
void SumSegments(Kernel& kernel, int64_t count, const StridedType& weight) {
  const int64_t rows = weight.dims[0];
  const int64_t segments = count / 10 + std::min(count, rows);
  const bool has_few_rows = count > 30 * rows && rows < 512;
  const DType accumulator = weight.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  kernel.Take(Indices(1));
  kernel.Take(Indices(segments));
  if (!has_few_rows) {
    kernel.Free(kernel.Take({accumulator, {segments, weight.dims[1]}}));
    return;
  }
  const int sums = kernel.Take(Indices(segments));
  if (BitsOf(weight.dtype) == 16) kernel.Free(kernel.Take({accumulator, weight.dims}));
  kernel.Free(sums);
}

void SortAndSum(Kernel& kernel, int64_t count) {
  kernel.Take(Indices(count));
  kernel.Take(Indices(count));
  const int range = kernel.Take(Indices(count));
  kernel.Free(kernel.Take(Bytes(SortBytes(count))));
  kernel.Free(range);
  kernel.MakeGrad(0);
  const StridedType& weight = kernel.types().in(0);
  kernel.Take(Indices(count));
  kernel.Take(Indices(1));
  const int dummy = kernel.Take(Indices(count));
  kernel.Free(kernel.Take(Bytes(kScanBytes)));
  kernel.Free(dummy);
  const int64_t offsets = std::min(count, weight.dims[0]);
  kernel.Take(Indices(offsets));
  kernel.Take(Indices(offsets));
  kernel.Free(kernel.Take(Bytes(kScanBytes)));
  SumSegments(kernel, count, weight);
}

void EmbeddingBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int64_t count = Numel(types.in(1).dims);
  kernel.Take(IndexCopy(types));
  const StridedType& gradient = types.incoming_gradient();
  if (!IsContiguous(gradient)) kernel.Take(gradient);
  count > kMostUnsorted ? SortAndSum(kernel, count) : kernel.MakeGrad(0);
}

constexpr OpRule kRules[] = {
    // weight [V, D], indices: the gradient has the whole table's size.
    {.name = "embedding",
     .gradients = {Reads(In(1))},
     .forward = {Scratch(IndexCopy), MakeOut(0)},
     .run_backward = EmbeddingBackward},
};

}  // namespace

std::span<const OpRule> EmbeddingRules() { return kRules; }

}  // namespace onnxfit
