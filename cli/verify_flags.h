// The flags of `verify` alone.
#pragma once

#include <vector>

#include "cli/flags.h"

namespace onnxfit {

std::vector<Flag> VerifyFlags();

// Throws Error for flags of it that contradict each other.
void CheckVerify(const Options& options);

}  // namespace onnxfit
