// Virtual memory of the driver's: addresses first, memory put behind them later, as expandable
// segments are made.
#pragma once

#include <optional>

namespace onnxfit::absent {

// The program's number of the card that the memory at an address is of: a block's, or what is
// mapped there.
std::optional<int> DeviceOf(const void* pointer);

}  // namespace onnxfit::absent
