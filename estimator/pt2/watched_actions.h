// Calls of a watched step that are no operators.  Internal to the room pt2/.
#pragma once

#include <string_view>

namespace onnxfit::pt2 {

// Whether a call of that target is an action: zero_grad, backward, an optimizer's step.
bool IsAction(std::string_view target);

}  // namespace onnxfit::pt2
