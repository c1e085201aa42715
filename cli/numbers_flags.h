// The flags that give a model by its numbers, instead of a file.
#pragma once

#include <vector>

#include "cli/flags.h"

namespace onnxfit {

std::vector<Flag> NumbersFlags();

}  // namespace onnxfit
