// Modules as people read them: those that repeat in one line.  Internal to the room picture/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "estimator/fit/module_sums.h"

namespace onnxfit {

struct ModuleLine {
  ModuleSum sum;      // of one of them
  int64_t count = 1;  // how many are alike, in it and around it
  std::string name;   // below its parent: "attn", "0..11"
};

// `modules` in their order; neighbours whose names are numbers one after the other, and that take
// the same down to their innermost module, are one line, and so are those in them.  Sums of lines
// times their counts are those of the modules.
std::vector<ModuleLine> FoldModules(const std::vector<ModuleSum>& modules);

// "124.4 M", "61.7 k", "512"; "" for none.
std::string CountText(int64_t count);

}  // namespace onnxfit
