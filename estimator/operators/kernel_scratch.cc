#include "estimator/operators/kernel_scratch.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "estimator/base/bytes.h"

namespace onnxfit {

// --- Sums ----------------------------------------------------------------------

namespace {

constexpr int64_t kThreads = 512;  // max_reduce_threads
constexpr int64_t kWarp = 32;
constexpr int64_t kLoad = 4;              // vt0, elements
constexpr int64_t kMinToVectorize = 128;  // elements, along the input
constexpr int64_t kMinPerThread = 16;     // values, before a block splits its work
constexpr int64_t kMaxPerThread = 256;    // values, before blocks share it

// The largest power of two that is not above `n`, nor above the power of two `limit`.
int64_t PowerOfTwo(int64_t n, int64_t limit) {
  const auto floor = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1)));
  return std::min(static_cast<int64_t>(floor), limit);
}

// get_output_vec_size: results that one thread makes side by side, which is what one load
// takes.  `kept` dimensions that lie in memory as one count as one.
int64_t SideBySide(const Dims& dims, const Dims& strides, uint64_t kept) {
  int64_t run = 1;
  for (bool longer = true; longer;) {
    longer = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] < 2 || (kept >> i & 1) == 0 || strides[i] != run) continue;
      run *= dims[i];
      longer = true;
    }
  }
  int64_t results = kLoad;
  while (run % results != 0) results /= 2;
  for (size_t i = 0; i < dims.size(); ++i) {
    while (dims[i] > 1 && strides[i] >= run && strides[i] % results != 0) results /= 2;
  }
  return results;
}

// How the kernel is laid out: threads in x and y, results and summands that they share.
struct Layout {
  int64_t width = 1;
  int64_t threads = 1;
  int64_t step_results = 1;
  int64_t step_summands = 1;
  bool splits_y = false;  // rows of the block share the summands
};

Layout LayOut(const SumShape& sum) {
  const int64_t per_thread = sum.side_by_side;
  int64_t fast = sum.along_fastest ? sum.summands : sum.results / per_thread;
  const int64_t slow = sum.along_fastest ? sum.results : sum.summands;
  if (sum.along_fastest && sum.results == 1 && fast > kMinToVectorize) fast /= kLoad;
  const int64_t limit = kThreads / per_thread;
  const int64_t width_limit = PowerOfTwo(fast, limit);
  const int64_t height = std::min(PowerOfTwo(slow, limit), limit / std::min(width_limit, kWarp));
  Layout layout;
  layout.width = std::min(width_limit, limit / height);
  layout.threads = layout.width * height;
  (sum.along_fastest ? layout.step_summands : layout.step_results) = layout.width;
  const int64_t values = DivideUp(sum.summands, layout.step_summands);
  layout.splits_y = values >= height * kMinPerThread || values >= kMaxPerThread;
  (layout.splits_y ? layout.step_summands : layout.step_results) *= height;
  return layout;
}

}  // namespace

SumShape SumOver(DType dtype, const Dims& dims, const Dims& strides, uint64_t kept) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  SumShape sum = {.accumulator_bytes = BitsOf(dtype) > 32 ? 8 : 4};
  int64_t nearest_kept = kNone;
  int64_t nearest_summed = kNone;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_kept = (kept >> i & 1) != 0;
    (is_kept ? sum.results : sum.summands) *= dims[i];
    int64_t& nearest = is_kept ? nearest_kept : nearest_summed;
    if (dims[i] > 1) nearest = std::min(nearest, strides[i]);
  }
  sum.along_fastest = nearest_kept == kNone || nearest_summed < nearest_kept;
  if (!sum.along_fastest) sum.side_by_side = SideBySide(dims, strides, kept);
  return sum;
}

SumScratch ScratchOf(const SumShape& sum, const DeviceProfile& device) {
  if (sum.results == 0 || sum.summands <= 1) return {};
  const int64_t per_thread = sum.side_by_side;
  const Layout layout = LayOut(sum);
  const int64_t grid = DivideUp(sum.results / per_thread, layout.step_results);
  const int64_t wanted_grid =
      device.multiprocessors * (device.threads_per_multiprocessor / layout.threads);
  const int64_t values = DivideUp(sum.summands, layout.step_summands);
  if (!layout.splits_y || values < kMaxPerThread || grid > wanted_grid) return {};
  const int64_t blocks =
      std::max(std::min(DivideUp(wanted_grid, grid), DivideUp(values, kMinPerThread)),
               DivideUp(values, kMaxPerThread));
  if (blocks <= 1) return {};
  int64_t partial = CheckedMul(CheckedMul(sum.accumulator_bytes, sum.results), blocks);
  if (!sum.along_fastest) partial = CheckedMul(partial, layout.width * per_thread);
  return {.partial_bytes = partial, .semaphore_bytes = 4 * grid};
}

SumScratch ScratchOfChannels(int64_t rows, int64_t channels, int64_t sums,
                             int64_t accumulator_bytes) {
  constexpr int64_t kThreads = 512;
  constexpr int64_t kWidest = 32;
  constexpr int64_t kRowsOfThread = 16;
  constexpr int64_t kMostBlocks = 128;
  constexpr int64_t kFewestBlocks = 8;
  if (rows <= 0 || channels <= 0) return {};
  const auto power = [](int64_t n) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
  };
  int64_t width = std::min(power(channels), kWidest);
  const int64_t height = std::min(power(DivideUp(rows, kRowsOfThread)), kThreads / width);
  if (width * height != kThreads) width = std::min(power(channels), kThreads / height);
  const int64_t blocks = std::min(DivideUp(rows, height * kRowsOfThread), kMostBlocks);
  if (blocks < kFewestBlocks) return {};
  return {.partial_bytes = CheckedMul(CheckedMul(sums * accumulator_bytes, channels), blocks),
          .semaphore_bytes = 4 * DivideUp(channels, width)};
}

// --- Sorts ---------------------------------------------------------------------

namespace {

// Items that a block takes on cards from a compute capability on.
struct Tile {
  int least_capability;
  int64_t items;
};

constexpr Tile kSortTiles[] = {{0, 256 * 11}, {80, 384 * 10}, {90, 384 * 12}};
constexpr Tile kSortTilesOf32[] = {{0, 256 * 11}, {80, 384 * 8}};
constexpr Tile kUniqueTilesTo210[] = {{0, 320}, {80, 1792}, {86, 320}, {90, 4480}};
constexpr Tile kUniqueTilesFrom211[] = {{0, 320}, {80, 1792}, {86, 320}, {90, 4480}, {100, 3840}};
constexpr Tile kUniqueTilesFrom213[] = {{0, 320}, {80, 1344}, {86, 320}, {90, 4928}};
constexpr int64_t kScanTile = 896;

int64_t TileOf(std::span<const Tile> tiles, const DeviceProfile& device) {
  int64_t items = tiles.front().items;
  for (const Tile& tile : tiles) {
    if (device.compute_capability >= tile.least_capability) items = tile.items;
  }
  return items;
}

int64_t Aligned(int64_t bytes) { return RoundUp(bytes, 256); }

constexpr int64_t kAlignment = 511;        // to find an aligned address, twice
constexpr int64_t kPassBits = 8;           // of a key
constexpr int64_t kHistogramBytes = 2048;  // of a pass
constexpr int64_t kLookBackBytes = 1024;   // of a block

constexpr int64_t kLeastOfOneSweep = 32;  // bits of a key: smaller ones are counted first

// Keys, and values of 64 bits.
int64_t CopiesToSort(int64_t count, int64_t key_bits) {
  return CheckedAdd(Aligned(CheckedMul(key_bits / 8, count)), Aligned(CheckedMul(8, count)));
}

// The counts of all digits, of as many blocks as a card runs five times over, and a tile of the
// scan.
int64_t SpineBytes(const DeviceProfile& device) {
  constexpr int64_t kThreads = 128;
  constexpr int64_t kDigits = 128;
  constexpr int64_t kScanItems = 11'264;
  const int64_t blocks =
      5 * device.multiprocessors * (device.threads_per_multiprocessor / kThreads);
  return 4 * (kDigits * blocks + kScanItems);
}

std::span<const Tile> UniqueTiles(Cub cub) {
  if (cub == Cub::kTo210) return kUniqueTilesTo210;
  return cub == Cub::kFrom211 ? std::span<const Tile>(kUniqueTilesFrom211) : kUniqueTilesFrom213;
}

// The states of so many blocks, and of those that a warp sees before the first.
int64_t StateBytes(int64_t blocks, Cub cub) {
  const int64_t before = cub == Cub::kTo210 ? 16 : 32;
  return kAlignment + Aligned(16 * (blocks + before));
}

}  // namespace

// Fewer keys than a tile's are sorted at once; several passes go to and fro between copies.
int64_t SortBytes(int64_t count, int64_t bits, const DeviceProfile& device, int64_t key_bits) {
  constexpr int64_t kSingleTile = 256 * 9;
  if (count <= kSingleTile) return 1;
  const int64_t passes = DivideUp(bits, kPassBits);
  const int64_t copies = passes > 1 ? CopiesToSort(count, key_bits) : 0;
  if (key_bits < kLeastOfOneSweep) return CheckedAdd(copies, kAlignment / 2 + SpineBytes(device));
  const std::span<const Tile> tiles =
      key_bits < 64 ? std::span<const Tile>(kSortTilesOf32) : std::span<const Tile>(kSortTiles);
  const int64_t look_back = kLookBackBytes * DivideUp(count, TileOf(tiles, device));
  return CheckedAdd(copies, kAlignment + kHistogramBytes * passes + look_back);
}

int64_t SegmentSortBytes(int64_t count, int64_t key_bits) {
  return CheckedAdd(CopiesToSort(count, key_bits), kAlignment / 2);
}

int64_t UniqueBytes(int64_t count, Cub cub, const DeviceProfile& device) {
  return StateBytes(DivideUp(count, TileOf(UniqueTiles(cub), device)), cub);
}

int64_t ScanBytes(int64_t count, Cub cub) { return StateBytes(DivideUp(count, kScanTile), cub); }

// A sum for each block of as many as a card runs five times over.
int64_t CountBytes(int64_t count, const DeviceProfile& device) {
  constexpr int64_t kSingleTile = 4096;
  constexpr int64_t kThreads = 256;
  if (count <= kSingleTile) return 1;
  const int64_t blocks =
      5 * device.multiprocessors * (device.threads_per_multiprocessor / kThreads);
  return kAlignment / 2 + Aligned(4 * blocks);
}

int64_t SelectBytes(int64_t count) {
  constexpr int64_t kSelectTile = 4608;
  constexpr int64_t kBefore = 32;
  return kAlignment / 2 + Aligned(16 * (DivideUp(count, kSelectTile) + kBefore));
}

int64_t BitsOfIndices(int64_t count) {
  return static_cast<int64_t>(
      std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count - 1, 1))));
}

}  // namespace onnxfit
