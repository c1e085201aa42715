// How cards' names compare.  Internal to the card table and its filter.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// Its letters and digits, in lower case: "rtx3060ti" of "RTX 3060-Ti".
std::string Squeezed(std::string_view name);

// The same without what names may or may not have, makers and series: "3060ti" of
// "NVIDIA GeForce RTX 3060 Ti", "" of "GeForce RTX".
std::string CardKey(std::string_view name);

}  // namespace onnxfit
