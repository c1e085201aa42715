// "Did you mean": the candidate nearest to what was typed.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace onnxfit {

// The candidate with the smallest edit distance to `typed` (case is free; ties go to
// the first), or "" where even that one differs in more than a third of its letters
// (at least 2).  O(letters of typed × letters of all candidates).
std::string_view Nearest(std::string_view typed, std::span<const std::string_view> candidates);

}  // namespace onnxfit
