#include "estimator/fit/optimizer_choice.h"

#include "estimator/base/error.h"
#include "estimator/eager/optimizer_rule.h"

namespace onnxfit {

bool HasImpl(Optimizer optimizer, OptimizerImpl impl, const FrameworkProfile& framework) {
  try {
    FindOptimizerRule(optimizer, impl, framework);
    return true;
  } catch (const Error&) {
    return false;
  }
}

OptimizerImpl ImplOf(Optimizer optimizer, std::optional<OptimizerImpl> asked,
                     const FrameworkProfile& framework) {
  if (asked && HasImpl(optimizer, *asked, framework)) return *asked;
  return FindOptimizerRule(optimizer, {}, framework).impl;
}

int64_t SampleStateBytes(Optimizer optimizer, const FrameworkProfile& framework) {
  const TensorType sample = {DType::kFloat32, {1024, 1024}};
  int64_t bytes = 0;
  for (const StateTensor& state : FindOptimizerRule(optimizer, {}, framework).states) {
    if (state.type == nullptr) continue;
    const TensorType type = state.type(sample);
    if (type.dtype != DType::kUndefined) bytes += BytesOf(type);
  }
  return bytes;
}

}  // namespace onnxfit
