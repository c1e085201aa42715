// What a card says of its L2 cache and its memory's bus.  They decide no size of a tensor; but
// torch.compile's benchmarks flush the L2 with a buffer of its size.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"

namespace onnxfit {

struct CardCaches {
  int l2_bytes = 0;
  int bus_bits = 0;
};

// By the card's name; where no row has it, as others of its generation.
CardCaches CachesOf(const DeviceProfile& device);

}  // namespace onnxfit
