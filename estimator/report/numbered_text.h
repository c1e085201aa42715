// Sentences that differ in their numbers alone, told as one.  Internal to the room report/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace onnxfit {

// A sentence taken apart at its numbers and sizes ("12", "46.9 MiB"); digits within names belong
// to the names.
struct NumberedText {
  std::string words;  // with a mark in the place of each number, another one for sizes
  std::vector<std::string> numbers = {};
};
NumberedText TakeApart(std::string_view text);

// The sentence again, with "28.1–93.8 MiB" where its numbers go from `low` to `high`.
// REQUIRES: as many of both as `words` has marks.
std::string PutTogether(std::string_view words, const std::vector<std::string>& low,
                        const std::vector<std::string>& high, std::string_view dash);

// Widens the range from `low` to `high`, number by number.
void Widen(const std::vector<std::string>& numbers, std::vector<std::string>& low,
           std::vector<std::string>& high);

// Each of `sentences` once, in the order in which they are first said, those of one code that
// differ in their numbers alone as one.
Warnings Merged(const Warnings& sentences, std::string_view dash);

// Whether "900.0 KiB" is less than "1.20 MiB".
bool IsLess(const std::string& a, const std::string& b);

}  // namespace onnxfit
