#include "estimator/eager/sort_scratch.h"

#include <algorithm>
#include <bit>
#include <span>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

// Items that a block takes on cards from a compute capability on.
struct Tile {
  int least_capability;
  int64_t items;
};

constexpr Tile kSortTiles[] = {{0, 256 * 11}, {80, 384 * 10}, {90, 384 * 12}};
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
int64_t SortBytes(int64_t count, int64_t bits, const DeviceProfile& device) {
  constexpr int64_t kSingleTile = 256 * 9;
  if (count <= kSingleTile) return 1;
  const int64_t passes = DivideUp(bits, kPassBits);
  const int64_t copies = passes > 1 ? CheckedMul(2, Aligned(CheckedMul(8, count))) : 0;
  const int64_t look_back = kLookBackBytes * DivideUp(count, TileOf(kSortTiles, device));
  return CheckedAdd(copies, kAlignment + kHistogramBytes * passes + look_back);
}

int64_t UniqueBytes(int64_t count, Cub cub, const DeviceProfile& device) {
  return StateBytes(DivideUp(count, TileOf(UniqueTiles(cub), device)), cub);
}

int64_t ScanBytes(int64_t count, Cub cub) { return StateBytes(DivideUp(count, kScanTile), cub); }

int64_t BitsOfIndices(int64_t count) {
  return static_cast<int64_t>(
      std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count - 1, 1))));
}

}  // namespace onnxfit
