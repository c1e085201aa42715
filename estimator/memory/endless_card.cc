#include "estimator/memory/endless_card.h"

#include <limits>

#include "estimator/base/bytes.h"

namespace onnxfit {

EndlessCard::EndlessCard(AllocatorConf conf)
    : source_(NewCountingSource(std::numeric_limits<int64_t>::max())) {
  conf.memory_fraction = 1;
  allocator_ = NewCachingAllocator(*source_, conf);
}

void EndlessCard::Alloc(BufferId id, const Buffer& buffer) {
  // Never full: what does not fit into 63 bits is refused.
  if (!allocator_->AllocOn(buffer.stream, id, buffer.bytes)) RefuseOverflow();
}

}  // namespace onnxfit
