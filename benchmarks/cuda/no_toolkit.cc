// What a build without the CUDA toolkit answers.
#include "benchmarks/cuda/open_gpu.h"
#include "estimator/cuda/find_gpus.h"

namespace onnxfit {

std::unique_ptr<Gpu> OpenGpu(int /*index*/, SegmentMemory /*memory*/) {
  throw NoGpuError(FindGpus().why_none);
}

}  // namespace onnxfit
