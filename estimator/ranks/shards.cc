#include "estimator/ranks/shards.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

constexpr int64_t kCopyThreads = 128;                // BLOCK_SIZE
constexpr int64_t kCopiedBytes = 16 * kCopyThreads;  // TILE_SIZE

int64_t Tiles(std::span<const TensorType> whole, int64_t world, int64_t tile_bytes) {
  int64_t tiles = 0;
  for (const TensorType& type : whole) {
    tiles = CheckedAdd(tiles, DivideUp(BytesOf(FirstRows(type, world)), tile_bytes));
  }
  return tiles;
}

// split_with_sizes_copy_out_cuda_contiguous_no_cast: how many tiles of a chunk a block takes, so
// that the card has at most twice as many threads to run as it can.
int64_t TilesInARow(int64_t tiles, int64_t chunks, const DeviceProfile& device) {
  const int64_t most_blocks =
      device.multiprocessors * device.threads_per_multiprocessor / kCopyThreads * 2;
  const int64_t factor = DivideUp(CheckedMul(tiles, chunks), std::max(most_blocks, int64_t{1}));
  const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(factor))));
  return std::max(DivideUp(factor, std::clamp(root, int64_t{1}, chunks)), int64_t{1});
}

}  // namespace

TensorType FirstRows(TensorType whole, int64_t world) {
  if (!whole.dims.empty()) whole.dims[0] = DivideUp(whole.dims[0], world);
  return whole;
}

TensorType Gathered(const TensorType& whole, int64_t world) {
  return {whole.dtype, {CheckedMul(Numel(FirstRows(whole, world).dims), world)}};
}

TensorType GatheredTogether(std::span<const TensorType> whole, int64_t world) {
  TensorType together = {whole[0].dtype, {0}};
  const bool is_one_type = std::ranges::all_of(
      whole, [&](const TensorType& type) { return type.dtype == together.dtype; });
  if (!is_one_type) together.dtype = DType::kUint8;
  for (const TensorType& type : whole) {
    const TensorType gathered = Gathered(type, world);
    const int64_t size = is_one_type ? gathered.dims[0] : BytesOf(gathered);
    together.dims[0] = CheckedAdd(together.dims[0], size);
  }
  return together;
}

// By tensor where it goes, where it comes from, its chunks, the blocks before it and one more; by
// block its tensor.
int64_t NumbersToSplit(std::span<const TensorType> whole, int64_t world,
                       const DeviceProfile& device) {
  const int64_t row = TilesInARow(Tiles(whole, world, kCopiedBytes), world, device);
  const auto tensors = static_cast<int64_t>(whole.size());
  return 4 * tensors + 1 + Tiles(whole, world, CheckedMul(kCopiedBytes, row));
}

// By tensor where it comes from, its bytes, those of a chunk, their blocks; the bytes and the
// blocks before it, and one more of each; by block its tensor.
int64_t NumbersToJoin(std::span<const TensorType> whole, int64_t world) {
  const auto tensors = static_cast<int64_t>(whole.size());
  return 6 * tensors + 2 + Tiles(whole, world, kCopiedBytes);
}

}  // namespace onnxfit
