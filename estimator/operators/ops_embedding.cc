// Embedding.  Sources: pytorch v2.6.0 derivatives.yaml (embedding_dense_backward) and
// aten/src/ATen/native/cuda/{Embedding,EmbeddingBackwardKernel}.cu; torch 2.11 events of 3,073 to
// 500,000 indices.
#include <algorithm>

#include "estimator/base/strided_loops.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// More indices are sorted, so that those of one row are summed up together.
constexpr int64_t kMostUnsorted = 3072;

TensorType IndexCopy(const CallTypes& call) {
  if (IsContiguous(call.in(1))) return {};
  return call.in(1);
}

TensorType Indices(int64_t count) { return {DType::kInt64, {count}}; }
TensorType Bytes(int64_t count) { return {DType::kUint8, {count}}; }

// Of keys: those that the number of rows has, or all.
int64_t SortedBits(const CallTypes& call) {
  constexpr int64_t kAll = 64;
  return call.framework().sorts_by_rows ? BitsOfIndices(call.in(0).dims[0] + 1) : kAll;
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
  const CallTypes& call = kernel.types();
  kernel.Take(Indices(count));
  kernel.Take(Indices(count));
  const int range = kernel.Take(Indices(count));
  kernel.Free(kernel.Take(Bytes(SortBytes(count, SortedBits(call), call.device()))));
  kernel.Free(range);
  kernel.MakeGrad(0);
  const StridedType& weight = call.in(0);
  kernel.Take(Indices(count));
  kernel.Take(Indices(1));
  const int dummy = kernel.Take(Indices(count));
  kernel.Free(kernel.Take(Bytes(UniqueBytes(count, call.framework().cub, call.device()))));
  kernel.Free(dummy);
  const int64_t offsets = std::min(count, weight.dims[0]);
  kernel.Take(Indices(offsets));
  kernel.Take(Indices(offsets));
  kernel.Free(kernel.Take(Bytes(ScanBytes(offsets, call.framework().cub))));
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

// --- Bags: weight, indices, offsets, weights of indices; ints: the mode (at::native::
// EmbeddingBagMode), 0 sum, 1 mean, 2 max ---

// Sources: _embedding_bag_cuda and embedding_bag_backward_cuda_* of aten/src/ATen/native/cuda/
// EmbeddingBag.cu, _embedding_bag_backward of native/EmbeddingBag.cpp, pytorch v2.11.0; torch 2.11
// events.
bool IsLargest(const CallTypes& call) { return !call.ints().empty() && call.ints()[0] == 2; }
TensorType BagSizes(const CallTypes& call) { return {DType::kInt64, {call.out(0).dims[0]}}; }
TensorType BagOfEach(const CallTypes& call) { return {DType::kInt64, call.in(1).dims}; }
TensorType LargestPlaces(const CallTypes& call) {
  return IsLargest(call) ? TensorType{DType::kInt64, call.out(0).dims} : TensorType();
}

void BagBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const int64_t count = Numel(types.in(1).dims);
  kernel.MakeGrad(3);
  kernel.Take(DenseGradient(types));
  if (!kernel.IsWanted(0)) return;
  if (IsLargest(types) || count == 0) return kernel.MakeGrad(0);
  SortAndSum(kernel, count);
}

// Of x[i, j, …]: what its indices have in common when they are broadcast together.
Dims SharedDims(const CallTypes& call) {
  Dims shared = call.in(1).dims;
  for (size_t i = 2; i < call.input_count(); ++i) shared = BroadcastDims(shared, call.in(i).dims);
  return shared;
}

// Indices that do not lie alike are made dense each, where they are not.  A mask is another matter.
// Source: AdvancedIndex of aten/src/ATen/native/TensorAdvancedIndexing.cpp, pytorch v2.11.0.
template <size_t kIndex>
TensorType DenseIndex(const CallTypes& call) {
  if (call.input_count() < 3 || kIndex >= call.input_count()) return {};
  const Dims shared = SharedDims(call);
  bool lie_alike = true;
  for (size_t i = 1; i < call.input_count(); ++i) {
    if (call.in(i).dtype == DType::kBool) return {};
    lie_alike =
        lie_alike && ExpandedStrides(call.in(i), shared) == ExpandedStrides(call.in(1), shared);
  }
  const StridedType index = {{DType::kInt64, shared}, ExpandedStrides(call.in(kIndex), shared)};
  if (lie_alike || IsContiguous(index)) return {};
  return index;
}

// index_put_with_sort_kernel of aten/src/ATen/native/cuda/Indexing.cu, pytorch v2.6.0; sizes from
// torch 2.11 events, 256 to 20,000 indices.
void IndexedBackward(Kernel& kernel, int64_t count, bool on_host) {
  const CallTypes& types = kernel.types();
  const StridedType& gradient = types.incoming_gradient();
  kernel.MakeGrad(0);
  // Places are made of indices where those are (computeLinearIndex).
  const int remainders = kernel.Take(on_host ? TensorType() : Indices(count));
  int places = kernel.Take(Indices(count));
  kernel.Free(remainders);
  for (size_t i = 2; i < types.input_count(); ++i) {  // computeLinearIndex adds one to the other
    const int remainder = kernel.Take(Indices(Numel(types.in(i).dims)));
    const int scaled = kernel.Take(Indices(Numel(types.in(i).dims)));
    kernel.Free(remainder);
    const int sum = kernel.Take(Indices(count));
    kernel.Free(places);
    kernel.Free(scaled);
    places = sum;
  }
  if (!IsContiguous(gradient)) kernel.Take(gradient);
  for (int i = 0; i < 3; ++i) kernel.Take(Indices(count));
  const int64_t bits = BitsOfIndices(types.in(0).dims[0]);
  kernel.Take(Bytes(SortBytes(count, bits, types.device())));
}

// A mask is found to be places first, in backward again (nonzero, of expandTensors in
// native/IndexingUtils.h).
bool HasMask(const CallTypes& call) { return call.in(1).dtype == DType::kBool; }
int64_t CountChosen(const CallTypes& call) {
  const size_t masked = call.in(1).dims.size();
  const Dims& dims = call.in(0).dims;
  int64_t of_each = 1;
  for (size_t i = masked; i < dims.size(); ++i) of_each *= dims[i];
  return Numel(call.out(0).dims) / std::max<int64_t>(of_each, 1);
}
TensorType CountOfTrue(const CallTypes& call) {
  return HasMask(call) ? TensorType{DType::kInt32, {}} : TensorType();
}
TensorType SumOfTrue(const CallTypes& call) {
  if (!HasMask(call)) return {};
  return Bytes(CountBytes(Numel(call.in(1).dims), call.device()));
}
TensorType PlacesOfTrue(const CallTypes& call) {
  if (!HasMask(call)) return {};
  return {DType::kInt64, {CountChosen(call), static_cast<int64_t>(call.in(1).dims.size())}};
}
TensorType SelectTrue(const CallTypes& call) {
  if (!HasMask(call)) return {};
  return Bytes(SelectBytes(Numel(call.in(1).dims), call.device()));
}

void IndexBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  if (!HasMask(types)) {
    return IndexedBackward(kernel, Numel(SharedDims(types)), /*on_host=*/false);
  }
  const int count = kernel.Take(CountOfTrue(types));
  kernel.Free(kernel.Take(SumOfTrue(types)));
  const int places = kernel.Take(PlacesOfTrue(types));
  kernel.Free(kernel.Take(SelectTrue(types)));
  kernel.Free(count);
  IndexedBackward(kernel, CountChosen(types), /*on_host=*/false);
  kernel.Free(places);
}

// ints: how many indices there are, on the host; autograd keeps those.
// Source: make_info of aten/src/ATen/native/TensorAdvancedIndexing.cpp, pytorch v2.11.0.
TensorType CopyOfIndices(const CallTypes& call) { return Indices(call.ints()[0]); }

void HostIndexBackward(Kernel& kernel) {
  IndexedBackward(kernel, kernel.types().ints()[0], /*on_host=*/true);
}

// The sums' own gradient, a row for each index, by the size of its bag for a mean
// (_embedding_bag_sparse_backward).
bool IsMean(const CallTypes& call) { return !call.ints().empty() && call.ints()[0] == 1; }
TensorType SizesToDivideBy(const CallTypes& call) {
  return IsMean(call) ? TensorType{call.out(0).dtype, {call.out(0).dims[0], 1}} : TensorType();
}
TensorType SizeOfEach(const CallTypes& call) {
  return IsMean(call) ? TensorType{call.out(0).dtype, {Numel(call.in(1).dims), 1}} : TensorType();
}

constexpr OpRule kEmbeddingRules[] = {
    // weight [V, D], indices: the gradient has the whole table's size.
    {.name = "embedding",
     .gradients = {Reads(In(1))},
     .forward = {Scratch(IndexCopy), MakeOut(0)},
     .run_backward = EmbeddingBackward},
    // sparse=True: rows and indices, which live as long as the gradient does
    // (embedding_sparse_backward of aten/src/ATen/native/Embedding.cpp, pytorch v2.11.0).
    {.name = "embedding.sparse",
     .gradients = {SparseRows(In(1))},
     .forward = {Scratch(IndexCopy), MakeOut(0)}},
    {.name = "embedding_bag.sparse",
     .gradients = {SparseNewRows(In(1) | In(2) | Aux(0) | Aux(1))},
     .aux = {{{"bag_size", BagSizes}, {"offset2bag", BagOfEach}, {"max_indices", LargestPlaces}}},
     .forward = {MakeAux(0), MakeAux(1), MakeOut(0), MakeAux(2)},
     .backward = {MakeGrad(0), Scratch(SizesToDivideBy), Scratch(SizesToDivideBy),
                  Scratch(SizeOfEach)}},
    {.name = "embedding_bag",
     .gradients = {Reads(In(1) | In(2) | In(3) | Aux(0) | Aux(1) | Aux(2)), kNoGradient,
                   kNoGradient, Reads(In(0) | In(1) | In(2) | Aux(1))},
     .aux = {{{"bag_size", BagSizes}, {"offset2bag", BagOfEach}, {"max_indices", LargestPlaces}}},
     .forward = {MakeAux(0), MakeAux(1), MakeOut(0), MakeAux(2)},
     .run_backward = BagBackward},
    // x[indices], along its first dimensions
    {.name = "index",
     .gradients = {Reads(In(1) | In(2) | In(3) | In(4))},
     .forward = {Scratch(CountOfTrue), Passing(SumOfTrue), Scratch(PlacesOfTrue),
                 Passing(SelectTrue), DropScratch(0, 1), Scratch(DenseIndex<1>),
                 Scratch(DenseIndex<2>), Scratch(DenseIndex<3>), MakeOut(0)},
     .run_backward = IndexBackward},
    {.name = "index.host",
     .gradients = {Reads({})},
     .forward = {Scratch(CopyOfIndices), MakeOut(0)},
     .run_backward = HostIndexBackward},
};

}  // namespace

std::span<const OpRule> EmbeddingRules() { return kEmbeddingRules; }

}  // namespace onnxfit
