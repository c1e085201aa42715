// How segments get their memory from CUDA.  Internal to benchmarks/cuda/.
#pragma once

#include <cstdint>
#include <memory>

#include "benchmarks/cuda/open_gpu.h"

namespace onnxfit {

// Memory of the current device.  What is still held when it goes is given back.
class CudaSegments {
 public:
  virtual ~CudaSegments() = default;

  // As SegmentSource's.  False where the card is full; throws Error for all else that CUDA says.
  [[nodiscard]] virtual bool Take(int32_t segment, int64_t offset, int64_t bytes) = 0;
  virtual void GiveBack(int32_t segment, int64_t offset, int64_t bytes) = 0;

  // Where a segment begins.  REQUIRES: something of it is taken.
  virtual char* Begin(int32_t segment) = 0;
};

// cudaMalloc and cudaFree.
std::unique_ptr<CudaSegments> NewWholeSegments();

// A range of addresses for each segment, of 1 1/8 of `total_bytes`, of which parts get memory
// (cuMemAddressReserve, cuMemCreate, cuMemMap, cuMemSetAccess: as c10's ExpandableSegment).
// Throws Error where the driver cannot do that.
std::unique_ptr<CudaSegments> NewPagedSegments(int device, int64_t total_bytes);

}  // namespace onnxfit
