// Which parameters gradients reach.
#pragma once

#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// Parameters to which no gradient flows from the loss: no call leads from them to it through
// floats alone.  REQUIRES: the program has a loss.  O(calls).
std::vector<NameId> UnreachedParameters(const Program& program);

}  // namespace onnxfit
