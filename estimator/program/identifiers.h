// Names in Python's text.
#pragma once

#include <cstddef>
#include <string_view>

namespace onnxfit {

// A letter, a digit or an underscore.
bool IsPartOfIdentifier(char c);

bool IsIdentifier(std::string_view text);

// Where `word` next stands as a name of its own, from `from` on: "x" in "f(x.T)", neither in "max"
// nor in "self.x"; npos where it does not.  O(length).
size_t FindWord(std::string_view text, std::string_view word, size_t from = 0);

}  // namespace onnxfit
