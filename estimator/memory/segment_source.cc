#include "estimator/memory/segment_source.h"

#include "estimator/base/bytes.h"
#include "estimator/memory/gpu.h"

namespace onnxfit {

std::unique_ptr<SegmentSource> NewCountingSource(int64_t capacity_bytes, int64_t held_bytes) {
  return NewCountingGpu(capacity_bytes, CheckedAdd(capacity_bytes, held_bytes));
}

}  // namespace onnxfit
