// "Did you mean": the candidate nearest to what was typed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace onnxfit {

// Letters to insert, take out or replace (Levenshtein's distance; case is free).
// O(letters of a × letters of b).
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance to `typed` (case is free; ties go to
// the first), or "" where even that one differs in more than a third of its letters
// (at least 2).  O(letters of typed × letters of all candidates).
std::string_view Nearest(std::string_view typed, std::span<const std::string_view> candidates);

}  // namespace onnxfit
