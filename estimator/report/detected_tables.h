// The cards of this machine as Markdown and as comma-separated values.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/card_at_hand.h"

namespace onnxfit {

// The table for people, with what is said of each card below it.
std::string ToMarkdown(const std::vector<CardAtHand>& cards);

// A header and one row a card; sizes in bytes.
std::string ToCsv(const std::vector<CardAtHand>& cards);

}  // namespace onnxfit
