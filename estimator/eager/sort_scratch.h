// What CUB's and Thrust's kernels take beside their results, of keys and values of 64 bits: blocks
// that take a tile of them each tell one another what they found.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"
#include "estimator/base/framework.h"

namespace onnxfit {

// Bytes of cub::DeviceRadixSort::SortPairs over the lowest `bits` of `count` keys.
// Source: cub/device/dispatch/{dispatch_radix_sort,tuning/tuning_radix_sort}.cuh of CUDA 13.0;
// torch 2.11 and 2.15 events of cards of compute capability 7.5 to 12.0.
int64_t SortBytes(int64_t count, int64_t bits, const DeviceProfile& device);

// Bytes of thrust::unique_by_key_copy.  Source: events of 2.9 to 2.15, to 500,000 keys.
int64_t UniqueBytes(int64_t count, Cub cub, const DeviceProfile& device);

// Bytes of thrust::exclusive_scan, on all cards.  Source: the same events.
int64_t ScanBytes(int64_t count, Cub cub);

// Of the numbers below `count`.
int64_t BitsOfIndices(int64_t count);

}  // namespace onnxfit
