// Cards as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/cards.h"

namespace onnxfit {

// An array of objects, one a card; sizes in bytes.  A context that was measured says where
// ("evidence"), compute_capability is absent where there is none.
std::string ToJson(const std::vector<const Card*>& cards);

}  // namespace onnxfit
