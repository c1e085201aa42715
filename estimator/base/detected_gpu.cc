#include "estimator/base/detected_gpu.h"

#include <fmt/format.h>

namespace onnxfit {

std::string CudaVersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace onnxfit
