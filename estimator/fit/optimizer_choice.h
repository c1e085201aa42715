// Which optimizers and implementations there are to choose from.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/base/framework.h"
#include "estimator/base/settings.h"

namespace onnxfit {

bool HasImpl(Optimizer optimizer, OptimizerImpl impl, const FrameworkProfile& framework);

// What runs `optimizer`: `asked`, or else what PyTorch takes.  Without an optimizer, foreach.
OptimizerImpl ImplOf(Optimizer optimizer, std::optional<OptimizerImpl> asked,
                     const FrameworkProfile& framework);

// What it keeps of a matrix of 1024 x 1024 parameters in fp32: what tells optimizers apart.
int64_t SampleStateBytes(Optimizer optimizer, const FrameworkProfile& framework);

}  // namespace onnxfit
