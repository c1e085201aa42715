// What functools.lru_cache holds of a function that returns more in a step than there is room for.
// Internal to the room names/.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/names/value_lives.h"
#include "estimator/program/program.h"

namespace onnxfit {

// The last result of a step, which the cache holds until call `until` of the next one.
struct CachedResult {
  NameId value = kNoName;
  int64_t until = 0;
};

// Each result is held until the function has run again as often as the cache has room, of this
// step or of the next.  Returns those of the next.  O(calls × frames + runs²).
std::vector<CachedResult> FollowEvictedResults(const Program& program, ValueLives& lives);

}  // namespace onnxfit
