// What a build without the CUDA toolkit answers.
#include <string>

#include "estimator/base/error.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/cuda/libraries.h"

namespace onnxfit {
namespace {

constexpr char kNoToolkit[] =
    "this onnxfit was built without the CUDA toolkit (try: install nvcc and cuBLAS "
    "of CUDA 12.5 or later, then ./project build in a clone of onnxfit)";

}  // namespace

GpuSearch FindGpus(std::optional<int> /*only*/) {
  return {.why_none = std::string("no usable GPU: ") + kNoToolkit};
}

std::unique_ptr<Libraries> OpenLibraries(const LibraryPlaces& /*places*/) {
  throw Error({.text = kNoToolkit});
}

}  // namespace onnxfit
