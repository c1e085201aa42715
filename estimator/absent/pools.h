// Pools of cudaMallocAsync.
#pragma once

#include "estimator/absent/pages.h"

namespace onnxfit::absent {

// What a card has from the beginning, and what cudaMallocAsync takes from unless it is told
// another.
Pool& DefaultPool(int device);

}  // namespace onnxfit::absent
