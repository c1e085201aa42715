// Two lists of sizes of which one has more: which of one is which of the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace onnxfit {

// Pairs of indices, both ascending.  Lists of one length are paired item by item.  Of others, the
// longest common subsequence stays together, and what lies between two of its items is paired in
// order: {8, 4} and {8, 2, 4} give (0, 0) and (1, 2).
// O(items of both multiplied); lists too long for that are paired in order.
std::vector<std::pair<size_t, size_t>> AlignSizes(const std::vector<int64_t>& before,
                                                  const std::vector<int64_t>& after);

}  // namespace onnxfit
