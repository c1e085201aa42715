// Which elements of a mask are not 0: what attention asks of masks, told without looking at each of
// a million elements where the operators that make them say it.
#pragma once

#include <cstdint>
#include <vector>

namespace onnxfit {

// In each matrix (the last two dimensions), those …
enum class Nonzeros : uint8_t {
  kNone,
  kAll,
  kLower,  // where column ≤ row, and no others
  kUpper,  // where column > row, and no others
  kMixed,  // anything else
};

// Of elements, row-major; in matrices of `size` × `size`, where that is above 1 (kLower and kUpper
// are found in these alone).  No elements are all of them.  O(elements).
template <typename T>
Nonzeros NonzerosAmong(const std::vector<T>& elements, int64_t size);

// What is not 0 where `a` is 0.
Nonzeros InverseOf(Nonzeros a);

// Of elements that depend on whether their column is before their row's number, is that, or is
// behind it.
Nonzeros NonzerosBySide(bool before, bool on, bool behind);

}  // namespace onnxfit
