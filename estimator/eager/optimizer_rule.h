// What an optimizer keeps for each parameter, and what its step allocates meanwhile: one
// row each.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "estimator/base/settings.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// The state tensor of one parameter; dtype kUndefined where it has none.
using StateFunction = TensorType (*)(const TensorType& parameter);

struct StateTensor {
  std::string_view name;  // as in optimizer.state[p]
  StateFunction type = nullptr;
};

struct OptimizerRule {
  Optimizer optimizer = Optimizer::kNone;
  std::array<StateTensor, 5> states = {};
  bool state_at_construction = false;  // else in the first step, parameter by parameter
  int shared_bytes = 0;                // tables that all parameters share
  // Tensors of the size of every parameter that one step holds: whole lists at once
  // (foreach), or one parameter at a time (loops).
  int lists = 0;
  int singles = 0;
};

// The row of `optimizer`, in the implementation that PyTorch 2.11 takes by default
// (foreach where there is one).  REQUIRES: it has a row; all have.
const OptimizerRule& FindOptimizerRule(Optimizer optimizer);

}  // namespace onnxfit
