// Which cards people ask for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/cards.h"

namespace onnxfit {

// The cards that match every filter, in the order of the table; all without one.  A filter is
//   a size                  24GiB: cards sold with that, or which CUDA shows with it
//   a limit or a range      >=16GiB, <8GiB, 8..12GiB: of the size sold
//   a number                16: such a size in GB, or a word of a name (1650)
//   a cloud or its machine  aws, p3, p3.2xlarge: the cards in there
//   anything else           a part of the alias, a name, or the family (laptop)
// Case, spaces and dashes are free in names; GB is what makers write, which is GiB.
// Throws Error where what begins as a limit or a range has no size.
std::vector<const Card*> FilterCards(std::span<const std::string> filters);

// Whether that filter is a size, a limit or a range.
bool IsAboutSize(std::string_view filter);

}  // namespace onnxfit
