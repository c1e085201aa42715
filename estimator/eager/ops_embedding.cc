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

constexpr int64_t kAllPasses = 8;  // of 8 bits each, over 64-bit keys

// Keys and values once more where there are several passes, a histogram for each, and what
// blocks of 3840 keys tell one another.
int64_t SortBytes(int64_t count, int64_t passes) {
  const int64_t copies = passes > 1 ? 2 * ((8 * count + 255) / 256 * 256) : 0;
  return copies + 511 + 2048 * passes + 1024 * ((count + 3839) / 3840);
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
  kernel.Free(kernel.Take(Bytes(SortBytes(count, kAllPasses))));
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

// Passes that the largest row number takes.  Fewer keys than a tile's are sorted at once.
int64_t IndexSortBytes(int64_t count, int64_t rows) {
  constexpr int64_t kTile = 2304;
  if (count <= kTile) return 1;
  int64_t passes = 1;
  for (int64_t largest = rows - 1; largest > 255; largest /= 256) ++passes;
  return SortBytes(count, passes);
}

// index_put_with_sort_kernel of aten/src/ATen/native/cuda/Indexing.cu, pytorch v2.6.0; sizes from
// torch 2.11 events, 256 to 20,000 indices.
void IndexBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int64_t count = Numel(types.in(1).dims);
  const StridedType& gradient = types.incoming_gradient();
  kernel.MakeGrad(0);
  const int remainders = kernel.Take(Indices(count));
  kernel.Take(Indices(count));
  kernel.Free(remainders);
  if (!IsContiguous(gradient)) kernel.Take(gradient);
  for (int i = 0; i < 3; ++i) kernel.Take(Indices(count));
  kernel.Take(Bytes(IndexSortBytes(count, types.in(0).dims[0])));
}

constexpr OpRule kRules[] = {
    // weight [V, D], indices: the gradient has the whole table's size.
    {.name = "embedding",
     .gradients = {Reads(In(1))},
     .forward = {Scratch(IndexCopy), MakeOut(0)},
     .run_backward = EmbeddingBackward},
    // x[indices], along its first dimension
    {.name = "index", .gradients = {Reads(In(1))}, .run_backward = IndexBackward},
};

}  // namespace

std::span<const OpRule> EmbeddingRules() { return kRules; }

}  // namespace onnxfit
