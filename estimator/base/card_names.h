// How people name cards, and which they ask for.
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
//   mig, a profile          slices, which no other filter finds: mig h200, 1g.10gb
//   anything else           a part of the alias, a name, or the family (laptop)
// Case, spaces and dashes are free in names; GB is what makers write, which is GiB.
// Throws Error where what begins as a limit or a range has no size.
std::vector<const Card*> FilterCards(std::span<const std::string> filters);

// Whether that filter is a size, a limit or a range.
bool IsAboutSize(std::string_view filter);

// What follows is internal to the card table and its filter.

std::string LowerCase(std::string_view text);

// Its letters and digits, in lower case: "rtx3060ti" of "RTX 3060-Ti".
std::string Squeezed(std::string_view name);

// The same without what names may or may not have, makers and series: "3060ti" of
// "NVIDIA GeForce RTX 3060 Ti", "" of "GeForce RTX".
std::string CardKey(std::string_view name);

// All names of a card: its alias, the table's name, what else it is called.
std::vector<std::string_view> NamesOf(const Card& card);

}  // namespace onnxfit
