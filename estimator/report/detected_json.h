// The cards of this machine as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/card_at_hand.h"

namespace onnxfit {

// An array of objects, one a card; sizes in bytes, what is not known is absent.  usable_bytes is
// what a process can have, its context included, once the shares of others are off.
std::string ToJson(const std::vector<CardAtHand>& cards);

}  // namespace onnxfit
