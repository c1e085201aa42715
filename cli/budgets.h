// What a run may take, as a config says it.
#pragma once

#include "cli/values.h"
#include "estimator/fit/check.h"
#include "estimator/fit/target.h"

namespace onnxfit {

// "16GiB" (as ParseBytes reads sizes), "t4" (as FindCard finds cards) or "80% of t4".  A card's
// target is `common` with that card.  Throws Error.
Budget ParseBudget(const Typed& typed, const TargetRequest& common);

// "64MiB", "2%" (up to 1000%) or "0".  Throws Error; also for negative ones.
Allowance ParseAllowance(const Typed& typed);

}  // namespace onnxfit
