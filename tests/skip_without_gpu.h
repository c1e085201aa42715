// Tests that need a card: they end as skipped where there is none.
#pragma once

#include <fmt/format.h>

#include <cstdlib>

#include "estimator/cuda/find_gpus.h"

namespace onnxfit {

inline constexpr int kSkipped = 77;  // what ctest counts as skipped

// The first card; ends the process where none can be used.
inline DetectedGpu FirstGpu() {
  const GpuSearch search = FindGpus(0);
  const std::string why = search.gpus.empty() ? search.why_none : search.gpus[0].why_unusable;
  if (why.empty()) return search.gpus[0];
  fmt::print("skipped: {}\n", why);
  std::exit(kSkipped);
}

}  // namespace onnxfit
