// How cards' names compare.  Internal to the card table and its filter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/cards.h"

namespace onnxfit {

// Its letters and digits, in lower case: "rtx3060ti" of "RTX 3060-Ti".
std::string Squeezed(std::string_view name);

// The same without what names may or may not have, makers and series: "3060ti" of
// "NVIDIA GeForce RTX 3060 Ti", "" of "GeForce RTX".
std::string CardKey(std::string_view name);

// All names of a card: its alias, the table's name, what else it is called.
std::vector<std::string_view> NamesOf(const Card& card);

}  // namespace onnxfit
