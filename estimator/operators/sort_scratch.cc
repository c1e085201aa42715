// What CUB and Thrust take to sort, to select and to scan.  Sizes of tiles are those of CUDA 13.0's
// tuning headers (cub/device/dispatch/tuning), as torch 2.11 asked for them of cards of compute
// capability 7.5, 8.0, 8.6, 9.0, 10.0 and 12.0, of 10,000 to 50,000,001 elements.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "estimator/base/bytes.h"
#include "estimator/operators/kernel_scratch.h"

namespace onnxfit {
namespace {

// Items that a block takes of elements of so many bits, on cards from a compute capability on.
struct Tile {
  int64_t bits;
  int least_capability;
  int64_t items;
  int64_t items_of_floats = 0;  // where those are others
};

constexpr Tile kPairTiles[] = {{8, 90, 3456},  {16, 90, 5632}, {32, 0, 2816},  {32, 80, 3072},
                               {32, 90, 5376}, {64, 0, 2816},  {64, 80, 3840}, {64, 90, 4608}};
constexpr Tile kKeyTiles[] = {{8, 90, 9728}, {16, 90, 9728}, {16, 100, 7680},
                              {32, 0, 5888}, {32, 80, 8064}, {32, 90, 7296, 6912},
                              {64, 0, 2816}, {64, 80, 3840}, {64, 90, 5760}};
constexpr Tile kUniqueKeyTiles[] = {
    {8, 0, 1280},   {8, 80, 19968},       {8, 86, 1280},  {8, 90, 5632},        {8, 100, 8448},
    {16, 0, 1280},  {16, 80, 8064, 1280}, {16, 86, 1280}, {16, 90, 5632, 1280}, {32, 0, 1280},
    {32, 80, 4608}, {32, 86, 1280},       {32, 90, 6528}, {32, 100, 5760},      {64, 0, 640},
    {64, 80, 1920}, {64, 86, 640},        {64, 90, 4224}};
constexpr Tile kFlaggedTiles[] = {
    {64, 0, 1280}, {64, 80, 4608}, {64, 86, 1280}, {64, 90, 8448}, {64, 100, 7040}};
constexpr Tile kInverseTiles[] = {{64, 0, 1920}, {64, 80, 3840}, {64, 86, 1920}, {64, 90, 3072}};
constexpr Tile kUniqueTilesTo210[] = {{64, 0, 320}, {64, 80, 1792}, {64, 86, 320}, {64, 90, 4480}};
constexpr Tile kUniqueTilesFrom211[] = {
    {64, 0, 320}, {64, 80, 1792}, {64, 86, 320}, {64, 90, 4480}, {64, 100, 3840}};
constexpr Tile kUniqueTilesFrom213[] = {
    {64, 0, 320}, {64, 80, 1344}, {64, 86, 320}, {64, 90, 4928}};

// 0 where no block takes a tile.
int64_t TileOf(std::span<const Tile> tiles, int64_t bits, const DeviceProfile& device,
               bool is_float = false) {
  int64_t items = 0;
  for (const Tile& tile : tiles) {
    if (tile.bits != bits || device.compute_capability < tile.least_capability) continue;
    items = is_float && tile.items_of_floats > 0 ? tile.items_of_floats : tile.items;
  }
  return items;
}

int64_t Aligned(int64_t bytes) { return RoundUp(bytes, 256); }

constexpr int64_t kAlignment = 511;        // to find an aligned address, twice
constexpr int64_t kPassBits = 8;           // of a key
constexpr int64_t kHistogramBytes = 2048;  // of a pass
constexpr int64_t kLookBackBytes = 1024;   // of a block

// Of keys, and of values where there are any.
struct Sorted {
  int64_t count;
  int64_t bits;  // that are looked at
  int64_t key_bits;
  int64_t value_bytes;
  int64_t tile;  // 0: digits are counted before each pass
};

// A block sorts so many at once, fewer the larger an element is.
int64_t SingleTile(const Sorted& sort) {
  return 256 * (std::max(sort.key_bits, 8 * sort.value_bytes) > 32 ? 9 : 19);
}

int64_t Copies(const Sorted& sort) {
  return CheckedAdd(Aligned(CheckedMul(sort.key_bits / 8, sort.count)),
                    Aligned(CheckedMul(sort.value_bytes, sort.count)));
}

// The counts of all digits, of as many blocks as a card runs five times over, and a tile of the
// scan.
int64_t SpineBytes(int64_t digits, const DeviceProfile& device) {
  constexpr int64_t kThreads = 128;
  constexpr int64_t kScanItems = 11'264;
  const int64_t blocks =
      5 * device.multiprocessors * (device.threads_per_multiprocessor / kThreads);
  return 4 * (digits * blocks + kScanItems);
}

// Several passes go to and fro between copies.
int64_t BytesOf(const Sorted& sort, const DeviceProfile& device) {
  if (sort.count <= SingleTile(sort)) return 1;
  if (sort.tile == 0) {
    const int64_t digit_bits = sort.key_bits < 16 ? 6 : 7;
    const int64_t copies = sort.bits > digit_bits ? Copies(sort) : 0;
    return CheckedAdd(copies, kAlignment / 2 + SpineBytes(int64_t{1} << digit_bits, device));
  }
  const int64_t passes = DivideUp(sort.bits, kPassBits);
  const int64_t look_back = kLookBackBytes * DivideUp(sort.count, sort.tile);
  return CheckedAdd(passes > 1 ? Copies(sort) : 0,
                    kAlignment + kHistogramBytes * passes + look_back);
}

std::span<const Tile> UniqueTiles(Cub cub) {
  if (cub == Cub::kTo210) return kUniqueTilesTo210;
  return cub == Cub::kFrom211 ? std::span<const Tile>(kUniqueTilesFrom211) : kUniqueTilesFrom213;
}

constexpr int64_t kBefore = 32;  // of a warp that looks back, before the first block

// The states of so many blocks, and of those that a warp sees before the first.
int64_t StateBytes(int64_t blocks, Cub cub) {
  const int64_t before = cub == Cub::kTo210 ? 16 : kBefore;
  return kAlignment + Aligned(16 * (blocks + before));
}

}  // namespace

int64_t SortBytes(int64_t count, int64_t bits, const DeviceProfile& device, int64_t key_bits) {
  return BytesOf({.count = count,
                  .bits = bits,
                  .key_bits = key_bits,
                  .value_bytes = 8,
                  .tile = TileOf(kPairTiles, key_bits, device)},
                 device);
}

int64_t SortKeysBytes(int64_t count, DType keys, const DeviceProfile& device) {
  const int64_t bits = BitsOf(keys);
  return BytesOf({.count = count,
                  .bits = bits,
                  .key_bits = bits,
                  .value_bytes = 0,
                  .tile = TileOf(kKeyTiles, bits, device, IsFloat(keys))},
                 device);
}

int64_t MergeSortBytes(int64_t count) {
  return CheckedAdd(Copies({count, 64, 64, 8, 0}), kAlignment);
}

int64_t SegmentSortBytes(int64_t count, int64_t key_bits) {
  return CheckedAdd(Copies({count, key_bits, key_bits, 8, 0}), kAlignment / 2);
}

int64_t UniqueBytes(int64_t count, Cub cub, const DeviceProfile& device) {
  return StateBytes(DivideUp(count, TileOf(UniqueTiles(cub), 64, device)), cub);
}

int64_t UniqueKeysBytes(int64_t count, DType keys, const DeviceProfile& device) {
  const int64_t tile = TileOf(kUniqueKeyTiles, BitsOf(keys), device, IsFloat(keys));
  return kAlignment + Aligned(8 * (DivideUp(count, tile) + kBefore));
}

int64_t InverseScanBytes(int64_t count, const DeviceProfile& device) {
  return kAlignment + Aligned(8 * (DivideUp(count, TileOf(kInverseTiles, 64, device)) + kBefore));
}

int64_t RunLengthBytes(int64_t count) {
  constexpr int64_t kRunTile = 768;
  return kAlignment / 2 + Aligned(16 * (DivideUp(count, kRunTile) + kBefore));
}

// A state beside its sum in one word of 16 or 8 bytes, or in arrays of their own.
int64_t ScanBytes(int64_t count, Cub cub, DType type) {
  constexpr int64_t kTileOf64 = 896;
  constexpr int64_t kTileOf32 = 1920;
  constexpr int64_t kTileOf16 = 3840;
  const int64_t bits = BitsOf(type);
  if (bits > 32) return StateBytes(DivideUp(count, kTileOf64), cub);
  const int64_t before = cub == Cub::kTo210 ? 16 : kBefore;
  if (bits == 32) return kAlignment + Aligned(8 * (DivideUp(count, kTileOf32) + before));
  const int64_t states = DivideUp(count, kTileOf16) + before;
  return kAlignment + Aligned(4 * states) + 2 * Aligned(2 * states);
}

int64_t ScanByKeyBytes(int64_t count) {
  constexpr int64_t kTile = 3840;
  return kAlignment + Aligned(16 * (DivideUp(count, kTile) + kBefore));
}

// A sum for each block of as many as a card runs five times over.
int64_t CountBytes(int64_t count, const DeviceProfile& device) {
  constexpr int64_t kSingleTile = 4096;
  constexpr int64_t kThreads = 256;
  if (count <= kSingleTile) return 1;
  const int64_t blocks =
      5 * device.multiprocessors * (device.threads_per_multiprocessor / kThreads);
  return kAlignment / 2 + Aligned(4 * blocks);
}

int64_t SelectBytes(int64_t count, const DeviceProfile& device) {
  const int64_t tile = TileOf(kFlaggedTiles, 64, device);
  return kAlignment / 2 + Aligned(16 * (DivideUp(count, tile) + kBefore));
}

int64_t BitsOfIndices(int64_t count) {
  return static_cast<int64_t>(
      std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count - 1, 1))));
}

}  // namespace onnxfit
