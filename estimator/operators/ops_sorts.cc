// Sorts, the middle, the largest, random orders.  Sources: pytorch v2.11.0, the files of
// aten/src/ATen/native/cuda that are named below, and torch 2.11 events.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "estimator/base/bytes.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// --- Sorts.  ints: the dimension ---

// Up to 4096 elements in it are sorted in place: the numbers of one row are copied to each.  More
// by CUB, of what lies along the dimension (sort_cuda_kernel of Sort.cpp,
// launch_stable_sort_kernel of SortStable.cu).
constexpr int64_t kMostSortedAtOnce = 4096;

// What is sorted, and along which dimension.
struct Rows {
  StridedType type;
  size_t axis = 0;

  int64_t size() const { return type.dims.empty() ? 1 : type.dims[axis]; }
  int64_t count() const { return Numel(type.dims) / std::max<int64_t>(size(), 1); }
  bool is_large() const { return size() > kMostSortedAtOnce; }
  bool is_copied() const { return is_large() && type.strides[axis] != 1; }
};
using RowsFunction = Rows (*)(const CallTypes&);

Rows RowsOfInput(const CallTypes& call) {
  return {call.in(0), call.ints().empty() ? 0 : Index(call.ints()[0])};
}

// CUB sorts row by row, a few all at once, by key and then by row, or many in one call.
enum class SortedBy : uint8_t { kRow, kKeyAndRow, kSegment };
SortedBy SortOf(const Rows& rows) {
  constexpr int64_t kLargeRow = 1'000'000;
  constexpr int64_t kManyRows = 128;
  if (rows.count() <= 1 || rows.size() >= kLargeRow) return SortedBy::kRow;
  return rows.count() < kManyRows ? SortedBy::kKeyAndRow : SortedBy::kSegment;
}

template <RowsFunction kRows>
TensorType Numbering(const CallTypes& call) {
  const Rows rows = kRows(call);
  return rows.is_large() ? TensorType() : TensorType{DType::kInt64, {rows.size()}};
}
template <RowsFunction kRows>
TensorType CopyToSort(const CallTypes& call) {
  const Rows rows = kRows(call);
  return rows.is_copied() ? TensorType(rows.type) : TensorType();
}
template <RowsFunction kRows>
TensorType SortedPlacesCopy(const CallTypes& call) {
  const Rows rows = kRows(call);
  return rows.is_copied() ? TensorType{DType::kInt64, rows.type.dims} : TensorType();
}

// The numbers of a row, or of all; by key and row, where they go, too.
int64_t CountOfNumbers(const Rows& rows) {
  return SortOf(rows) == SortedBy::kRow ? rows.size() : Numel(rows.type.dims);
}
template <RowsFunction kRows>
TensorType SortNumbers(const CallTypes& call) {
  const Rows rows = kRows(call);
  return rows.is_large() ? TensorType{DType::kInt64, {CountOfNumbers(rows)}} : TensorType();
}
template <RowsFunction kRows>
TensorType SortedNumbers(const CallTypes& call) {
  return SortOf(kRows(call)) == SortedBy::kKeyAndRow ? SortNumbers<kRows>(call) : TensorType();
}
template <RowsFunction kRows>
TensorType SortedKeys(const CallTypes& call) {
  const Rows rows = kRows(call);
  const bool has = rows.is_large() && SortOf(rows) == SortedBy::kKeyAndRow;
  return has ? TensorType(rows.type) : TensorType();
}
template <RowsFunction kRows>
TensorType SortScratch(const CallTypes& call) {
  const Rows rows = kRows(call);
  if (!rows.is_large()) return {};
  const int64_t count = CountOfNumbers(rows);
  const int64_t bits = BitsOf(rows.type.dtype);
  return ScratchBytes(SortOf(rows) == SortedBy::kSegment
                          ? SegmentSortBytes(count, bits)
                          : SortBytes(count, bits, call.device(), bits));
}
// Then the rows' numbers, by which those that were sorted by key are sorted again.
template <RowsFunction kRows>
TensorType SortOfRowNumbers(const CallTypes& call) {
  const Rows rows = kRows(call);
  if (!rows.is_large() || SortOf(rows) != SortedBy::kKeyAndRow) return {};
  const int64_t bits = BitsOfIndices(rows.count());
  return ScratchBytes(SortBytes(CountOfNumbers(rows), bits, call.device()));
}

// --- The middle of all (median_impl of Sorting.cpp): all are sorted as one row ---

TensorType SortOfAll(const CallTypes& call) {
  const int64_t count = CountOfInput(call);
  if (count <= kMostSortedAtOnce) return {};
  const int64_t bits = BitsOf(call.in(0).dtype);
  return ScratchBytes(SortBytes(count, bits, call.device(), bits));
}

// How many are no numbers: their sum casts bools.
SumScratch ScratchOfCount(const CallTypes& call) {
  const Dims dims = {CountOfInput(call)};
  return ScratchOf(SumOver(DType::kInt64, dims, ContiguousStrides(dims), 0), call.device());
}
TensorType SumsOfCount(const CallTypes& call) {
  return ScratchBytes(ScratchOfCount(call).partial_bytes);
}
TensorType SemaphoresOfCount(const CallTypes& call) {
  return ScratchBytes(ScratchOfCount(call).semaphore_bytes);
}

// --- The largest.  ints: the dimension, whether they are sorted; {} where no kernel of several
// blocks is known to run (mbtopk::launch and launch_gather_topk_kernel of TensorTopK.cu) ---

constexpr int64_t kDigits = 256;
constexpr int64_t kBlockThreads = 256;

bool TakesSeveralBlocks(int64_t rows, int64_t size) {
  struct Limit {
    int64_t most_rows;
    int64_t least_size;
  };
  constexpr Limit kLimits[] = {{20, 20'000}, {40, 10'000}, {80, 8000},
                               {199, 5000},  {799, 3000},  {4000, 800}};
  constexpr int64_t kLeastOfMore = 400;
  for (const Limit& limit : kLimits) {
    if (rows <= limit.most_rows) return size >= limit.least_size;
  }
  return size >= kLeastOfMore;
}

// 0 where a row is the work of one block.
int64_t BlocksOfRow(const CallTypes& call) {
  if (call.ints().empty()) return 0;
  const Rows rows = RowsOfInput(call);
  if (!TakesSeveralBlocks(rows.count(), rows.size())) return 0;
  constexpr int64_t kBlocksOfMultiprocessor = 6;  // 65,536 registers, 40 of a thread
  constexpr int64_t kFewestItems = 4;
  constexpr int64_t kMostItems = 64;
  const int64_t threads = call.device().multiprocessors * kBlocksOfMultiprocessor * kBlockThreads;
  const int64_t items = std::clamp(DivideUp(Numel(rows.type.dims), std::max<int64_t>(threads, 1)),
                                   kFewestItems, kMostItems);
  return DivideUp(rows.size(), items * kBlockThreads);
}

// So many bytes for each row, and for each block.
TensorType OfEachRow(const CallTypes& call, int64_t bytes) {
  const bool is_needed = BlocksOfRow(call) > 0;
  return is_needed ? ScratchBytes(bytes * RowsOfInput(call).count()) : TensorType();
}
TensorType OfEachBlock(const CallTypes& call, int64_t bytes) {
  const int64_t blocks = BlocksOfRow(call);
  return blocks > 0 ? ScratchBytes(bytes * blocks * RowsOfInput(call).count()) : TensorType();
}
TensorType FoundValues(const CallTypes& call) {
  return OfEachRow(call, BitsOf(call.in(0).dtype) / 8);
}
TensorType RanksToFind(const CallTypes& call) { return OfEachRow(call, 8); }
TensorType FoundDigits(const CallTypes& call) {
  return OfEachRow(call, BitsOf(call.in(0).dtype) > 32 ? 16 : 8);
}
TensorType DigitCounts(const CallTypes& call) { return OfEachBlock(call, 2 * kDigits); }
TensorType DigitSums(const CallTypes& call) { return OfEachRow(call, 4 * kDigits); }
TensorType CountsOfBlocks(const CallTypes& call) { return OfEachBlock(call, 4); }
TensorType ScanOfBlocks(const CallTypes& call) {
  const int64_t blocks = BlocksOfRow(call) * RowsOfInput(call).count();
  return blocks > 0 ? ScratchBytes(ScanByKeyBytes(blocks)) : TensorType();
}

// More than 4096 of a row are sorted by what sorts tensors.
bool SortsLargest(const CallTypes& call) { return call.ints().size() > 1 && call.ints()[1] != 0; }
Rows RowsOfLargest(const CallTypes& call) {
  Rows rows = {call.out(0), RowsOfInput(call).axis};
  if (!SortsLargest(call)) rows.type = {};
  return rows;
}
TensorType LargestCopy(const CallTypes& call) {
  const Rows rows = RowsOfLargest(call);
  return rows.is_large() ? TensorType(rows.type) : TensorType();
}
TensorType PlacesOfLargest(const CallTypes& call) {
  const Rows rows = RowsOfLargest(call);
  return rows.is_large() ? TensorType{DType::kInt64, rows.type.dims} : TensorType();
}

// What occurs most often, in rows along the dimension (TensorModeKernel.cpp).
TensorType CopyOfRows(const CallTypes& call) {
  const Rows rows = RowsOfInput(call);
  const bool is_last = rows.axis + 1 >= rows.type.dims.size();
  return is_last && IsContiguous(rows.type) ? TensorType() : LikeInput(call);
}

// --- Random orders: what is drawn is sorted (randperm_out_cuda of TensorFactories.cu) ---

int64_t CountOfOrder(const CallTypes& call) { return call.out(0).dims[0]; }

// Of keys, so many that two are hardly ever the same: with a chance of 0.9 in 12 orders.
int64_t BitsOfKeys(const CallTypes& call) {
  const auto n = static_cast<double>(CountOfOrder(call));
  const double threshold = std::log(0.9) * 12;
  const double keys = n - (6 * n * n + 1) / threshold;
  return std::min<int64_t>(64, static_cast<int64_t>(std::ceil(std::log2(keys))));
}
int64_t WidthOfKeys(const CallTypes& call) { return BitsOfKeys(call) < 32 ? 32 : 64; }
TensorType NumbersInOrder(const CallTypes& call) { return call.out(0); }
TensorType DrawnKeys(const CallTypes& call) {
  return {WidthOfKeys(call) == 32 ? DType::kInt32 : DType::kInt64, {CountOfOrder(call)}};
}
TensorType SortOfDrawn(const CallTypes& call) {
  return ScratchBytes(
      SortBytes(CountOfOrder(call), BitsOfKeys(call), call.device(), WidthOfKeys(call)));
}

constexpr OpRule kSortRules[] = {
    // values, places, which lie as x does
    {.name = "sort",
     .strides = AsInput,
     .gradients = {Reads(Out(1))},
     .forward = {MakeOut(0), MakeOut(1), Scratch(Numbering<RowsOfInput>),
                 Scratch(CopyToSort<RowsOfInput>), Scratch(CopyToSort<RowsOfInput>),
                 Scratch(SortedPlacesCopy<RowsOfInput>), Scratch(SortNumbers<RowsOfInput>),
                 Scratch(SortedNumbers<RowsOfInput>), Scratch(SortedKeys<RowsOfInput>),
                 Passing(SortScratch<RowsOfInput>), DropScratch(6, 1),
                 Scratch(SortOfRowNumbers<RowsOfInput>)}},
    // places alone: the sorted values, which nobody names, are gone when the sort returns
    {.name = "argsort",
     .strides = AsInput,
     .gradients = {kNoGradient},
     .forward = {Scratch(LikeInput), MakeOut(0), Scratch(Numbering<RowsOfInput>),
                 Scratch(CopyToSort<RowsOfInput>), Scratch(CopyToSort<RowsOfInput>),
                 Scratch(SortedPlacesCopy<RowsOfInput>), Scratch(SortNumbers<RowsOfInput>),
                 Scratch(SortedNumbers<RowsOfInput>), Scratch(SortedKeys<RowsOfInput>),
                 Passing(SortScratch<RowsOfInput>), DropScratch(7, 1),
                 Scratch(SortOfRowNumbers<RowsOfInput>)}},
    // sorted values, their places, and the numbers of the row; what is in the middle, unless the
    // last is no number
    {.name = "median",
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {Scratch(DenseInput<0>), Scratch(LikeInput), Scratch(IntegersLikeInput),
                 Scratch(IntegersLikeInput), Scratch(SortOfAll), DropScratch(2, 3),
                 DropScratch(0, 1), Scratch(BoolsLikeOutput), MakeOut(0)},
     .backward = kSharedByEqualOfAll},
    // The middle of those that are numbers: ((n - 1) - isnan (sorted).sum ()) / 2 is its place.
    {.name = "nanmedian",
     .gradients = {ReadsAsInput(In(0) | Out(0))},
     .forward = {Scratch(DenseInput<0>), Scratch(LikeInput), Scratch(IntegersLikeInput),
                 Scratch(IntegersLikeInput), Scratch(SortOfAll), DropScratch(2, 3),
                 DropScratch(0, 1), Scratch(BoolsLikeInput), Scratch(IntegersLikeOutput),
                 Scratch(IntegersLikeInput), Scratch(SumsOfCount), Scratch(SemaphoresOfCount),
                 DropScratch(7, 3), Scratch(IntegersLikeOutput), Scratch(ScalarLikeOutput),
                 Scratch(IntegersLikeOutput), DropScratch(10, 2), DropScratch(5, 2), MakeOut(0)},
     .backward = kSharedByEqualOfAll},
    {.name = "topk",  // values, indices
     .gradients = {Reads(Out(1))},
     .forward = {MakeOut(0),
                 MakeOut(1),
                 Scratch(DenseInput<0>),
                 Scratch(FoundValues),
                 Scratch(RanksToFind),
                 Scratch(FoundDigits),
                 Scratch(DigitCounts),
                 Scratch(DigitSums),
                 Scratch(CountsOfBlocks),
                 Scratch(CountsOfBlocks),
                 Passing(ScanOfBlocks),
                 Passing(ScanOfBlocks),
                 DropScratch(),
                 Scratch(PlacesOfLargest),
                 Scratch(LargestCopy),
                 Scratch(CopyToSort<RowsOfLargest>),
                 Scratch(CopyToSort<RowsOfLargest>),
                 Scratch(SortedPlacesCopy<RowsOfLargest>),
                 Scratch(SortNumbers<RowsOfLargest>),
                 Scratch(SortedNumbers<RowsOfLargest>),
                 Scratch(SortedKeys<RowsOfLargest>),
                 Passing(SortScratch<RowsOfLargest>),
                 DropScratch(17, 1),
                 Passing(SortOfRowNumbers<RowsOfLargest>),
                 DropScratch(12, 5),
                 Scratch(PlacesOfLargest)}},
    // Each row in one block; rows that do not lie side by side are copied.
    {.name = "mode", .forward = {MakeOut(0), MakeOut(1), Scratch(CopyOfRows)}},
    {.name = "kthvalue",
     .gradients = {Reads(Out(1))},
     .forward = {Scratch(DenseInput<0>), MakeOut(0), MakeOut(1)}},
    {.name = "randperm",
     .forward = {MakeOut(0), Passing(OneInteger), Scratch(NumbersInOrder), Scratch(DrawnKeys),
                 Scratch(DrawnKeys), Passing(SortOfDrawn)}},
};

}  // namespace

std::span<const OpRule> SortRules() { return kSortRules; }

}  // namespace onnxfit
