// Calls that several functions in rows take apart.  Internal to the room eager/.
#pragma once

#include "estimator/eager/dispatcher.h"

namespace onnxfit {

// What is made last is the result of the running call, or a local of it.
enum class Ends : uint8_t { kCall, kLocal };

// torch.matmul of any number of dimensions.  Returns the local, kNoName for the result.
NameId MatMul(Dispatcher& dispatcher, NameId a, NameId b, Ends ends);

}  // namespace onnxfit
