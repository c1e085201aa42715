// What ranks have of tensors that are sharded by rows, and the tables of the kernels that copy many
// of them at once.  Sources: torch/distributed/fsdp/_fully_shard/_fsdp_param.py and
// aten/src/ATen/native/cuda/TensorShape.cu, pytorch v2.11.0.
#pragma once

#include <cstdint>
#include <span>

#include "estimator/base/device.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// What a rank has at most of a tensor.  Of one without dimensions fully_shard makes an error; here
// it is one row.
TensorType FirstRows(TensorType whole, int64_t world);

// The shards of all ranks in a row, of as many rows each.
TensorType Gathered(const TensorType& whole, int64_t world);
// Of several tensors in one; of several types, in bytes.  REQUIRES: `whole` is not empty.
TensorType GatheredTogether(std::span<const TensorType> whole, int64_t world);

// How many 64-bit numbers split_with_sizes_copy takes to the device for tensors that are copied out
// of what was gathered of them, in chunks, one for each rank.
int64_t NumbersToSplit(std::span<const TensorType> whole, int64_t world,
                       const DeviceProfile& device);
// The same of _chunk_cat, which does the reverse, of what it makes.
int64_t NumbersToJoin(std::span<const TensorType> whole, int64_t world);

}  // namespace onnxfit
