// What a sum takes beside its result: where one result is the work of several blocks of a
// kernel, they leave partial sums, and semaphores say who is the last.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"
#include "estimator/base/tensor_type.h"
#include "estimator/eager/machine.h"

namespace onnxfit {

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

// Both, allocated and freed on the machine.
void PassScratch(Machine& machine, const SumShape& sum, const DeviceProfile& device, LabelId label);

}  // namespace onnxfit
