// What a build without the CUDA toolkit answers.
#include "benchmarks/cuda/find_gpus.h"
#include "benchmarks/cuda/open_gpu.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr char kNoToolkit[] =
    "this onnxfit was built without the CUDA toolkit (install nvcc of CUDA 12 or later, then "
    "./project build)";

}  // namespace

GpuSearch FindGpus() { return {.why_none = kNoToolkit}; }

std::unique_ptr<Gpu> OpenGpu(int /*index*/, SegmentMemory /*memory*/) {
  throw Error({.text = kNoToolkit});
}

}  // namespace onnxfit
