// The card at hand, for a replay.
#pragma once

#include <memory>

#include "estimator/memory/gpu.h"

namespace onnxfit {

// How segments get their memory.
enum class SegmentMemory : uint8_t {
  kWhole,  // cudaMalloc and cudaFree, one call each a segment
  kPages,  // cuMemCreate and cuMemMap: segments that grow (expandable_segments)
};

// The card of that index (FindGpus'), with its context and the kernels of a replay loaded, so that
// what it reads from then on should change with segments alone.  What is still taken when it goes
// is given back.  Throws Error where there is none.
std::unique_ptr<Gpu> OpenGpu(int index, SegmentMemory memory);

}  // namespace onnxfit
