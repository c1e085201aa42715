// How much is held of tensors that are known before anything runs (shapes.h).
#pragma once

#include <cstdint>

namespace onnxfit {

// The elements that were evaluated, of all graphs; 8 bytes each.  Beyond kMaxHeldElements
// (constants.h) evaluation throws Error: who keeps shapes for later lets them go before.
int64_t HeldElements();

}  // namespace onnxfit
