// Cards as Markdown and as comma-separated values.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/cards.h"

namespace onnxfit {

// The table for people, with what its marks mean below it.
std::string ToMarkdown(const std::vector<const Card*>& cards);

// A header and one row a card; sizes in bytes.
std::string ToCsv(const std::vector<const Card*>& cards);

}  // namespace onnxfit
