// The flags of `verify` alone.
#pragma once

#include <vector>

#include "cli/flags.h"

namespace onnxfit {

std::vector<Flag> VerifyFlags();

}  // namespace onnxfit
