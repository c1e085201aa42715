// Which of a program's calls are the model's.  Internal to the room training/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// Those of the model's outputs that a call makes, and where the model's calls end.
struct MadeOutputs {
  std::vector<NameId> names;
  size_t model_end = 0;  // the loss's calls begin here
};

// O(calls).
MadeOutputs FindOutputs(const Program& program);

}  // namespace onnxfit
