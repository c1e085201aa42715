// What kernels take beside their results, in bytes: sums, and what CUB and Thrust sort.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"
#include "estimator/base/framework.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// --- Sums ----------------------------------------------------------------------

// What a sum takes beside its result: where one result is the work of several blocks of a
// kernel, they leave partial sums, and semaphores say who is the last.

// A sum as its kernel sees it.
struct SumShape {
  int64_t results = 1;            // elements of the result
  int64_t summands = 1;           // of each
  bool along_fastest = false;     // summands lie closer together in memory than results do
  int64_t side_by_side = 1;       // results that one thread makes, where they lie so: 1, 2 or 4
  int64_t accumulator_bytes = 4;  // fp32 for 16 and 32 bits, else 8
};

// The sum of a tensor of `dims` and `strides` over the dimensions whose bit is not in `kept`.
// 64 dimensions at most.
SumShape SumOver(DType dtype, const Dims& dims, const Dims& strides, uint64_t kept);

// Bytes of both, 0 and 0 where each result is the work of one block.
struct SumScratch {
  int64_t partial_bytes = 0;
  int64_t semaphore_bytes = 0;
};

// Source: setReduceConfig, global_memory_size and semaphore_size in
// aten/src/ATen/native/cuda/Reduce.cuh, pytorch v2.6.0; torch 2.11 events.
SumScratch ScratchOf(const SumShape& sum, const DeviceProfile& device);

// What batch norm's own kernels take of `rows` rows of channels that lie side by side: `sums`
// numbers a channel and block, where there are blocks enough.  Source: flexible_launch_configs and
// its callers in aten/src/ATen/native/cuda/Normalization.cuh, pytorch v2.11.0; torch 2.11 events.
SumScratch ScratchOfChannels(int64_t rows, int64_t channels, int64_t sums,
                             int64_t accumulator_bytes);

// Scratch of so many bytes; no tensor where there are none.
inline TensorType ScratchBytes(int64_t count) {
  return count == 0 ? TensorType() : TensorType{DType::kUint8, {count}};
}

// --- Sorts (sort_scratch.cc) ---------------------------------------------------

// What CUB's and Thrust's kernels take beside their results: blocks that take a tile of the
// elements each tell one another what they found.

// Bytes of cub::DeviceRadixSort::SortPairs over the lowest `bits` of `count` keys of `key_bits`,
// with values of 64 bits.  Source: cub/device/dispatch/{dispatch_radix_sort,tuning/
// tuning_radix_sort}.cuh of CUDA 13.0; torch 2.11 and 2.15 events of cards of compute capability
// 7.5 to 12.0.
int64_t SortBytes(int64_t count, int64_t bits, const DeviceProfile& device, int64_t key_bits = 64);

// Bytes of cub::DeviceRadixSort::SortKeys.
int64_t SortKeysBytes(int64_t count, DType keys, const DeviceProfile& device);

// Bytes of thrust::sort_by_key with a comparison, of keys and values of 64 bits.  Source:
// torch 2.11 events of coalesce.
int64_t MergeSortBytes(int64_t count);

// Bytes of cub::DeviceSegmentedRadixSort::SortPairs: copies of keys and values.  Source: the same
// directory; torch 2.11 events of 16, 32 and 64 bits.
int64_t SegmentSortBytes(int64_t count, int64_t key_bits);

// Bytes of thrust::unique_by_key_copy.  Source: events of 2.9 to 2.15, to 500,000 keys.
int64_t UniqueBytes(int64_t count, Cub cub, const DeviceProfile& device);

// Bytes of what torch.unique runs on sorted keys: cub::DeviceSelect::Unique; the scan that numbers
// them for return_inverse; cub::DeviceRunLengthEncode::Encode for return_counts.
int64_t UniqueKeysBytes(int64_t count, DType keys, const DeviceProfile& device);
int64_t InverseScanBytes(int64_t count, const DeviceProfile& device);
int64_t RunLengthBytes(int64_t count);

// Bytes of cub::DeviceScan, and of thrust::exclusive_scan, of numbers of `type`, on all cards.
// Source: the same events; of 16 and 32 bits of 2.11.
int64_t ScanBytes(int64_t count, Cub cub, DType type = DType::kInt64);

// Bytes of cub::DeviceScan::InclusiveSumByKey of 32 bits.  Source: torch 2.11 events of topk.
int64_t ScanByKeyBytes(int64_t count);

// Bytes of cub::DeviceReduce::Sum, by which nonzero counts `count` elements.  Source: torch 2.11
// events, to 50,000,001.
int64_t CountBytes(int64_t count, const DeviceProfile& device);

// Bytes of cub::DeviceSelect::Flagged over `count` elements, as nonzero runs it.
int64_t SelectBytes(int64_t count, const DeviceProfile& device);

// Of the numbers below `count`.
int64_t BitsOfIndices(int64_t count);

}  // namespace onnxfit
