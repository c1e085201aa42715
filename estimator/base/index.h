// Ids of the estimator are small signed numbers, places in a vector are size_t.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace onnxfit {

// The place that `id` names.  REQUIRES: id >= 0.
constexpr size_t Index(int64_t id) {
  assert(id >= 0);
  return static_cast<size_t>(id);
}

}  // namespace onnxfit
