// Several changes together, where none alone is enough.  Internal to the room fit/.
#pragma once

#include <optional>
#include <span>

#include "estimator/fit/advice_trial.h"

namespace onnxfit {

inline constexpr size_t kMostPairs = 24;    // judged
inline constexpr size_t kMostTriples = 16;  // the same

// The first pair of `singles` that is enough, else the first triple: those first that may save what
// is missing, as far as it is known of their parts, the cheapest of them first; then the others, by
// what they may save.
std::optional<Trial> FindCombination(const AdviceCase& c, const Judgement& before,
                                     std::span<const Trial> singles);

}  // namespace onnxfit
