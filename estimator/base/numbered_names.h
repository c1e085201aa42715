// Names that differ in numbers alone, as the blocks of a list have them: "layer.0.conv".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace onnxfit {

// The same for all names that differ in numbers alone: "layer.0.conv" of "layer.12.conv".
std::string NumberPattern(std::string_view name);

// What all have in common: "*" stands for numbers that differ, "layer.*/attention/Softmax"; up to
// three that differ in one place have theirs, "layer.{3,4}/attention/Softmax".  O(letters × numbers
// in a name).  REQUIRES: they differ in numbers alone; at least one.
std::string CommonName(std::span<const std::string> names);

}  // namespace onnxfit
