// What functions return under functools.lru_cache: calls of the first step, or of all of them where
// the cache has no room.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/libraries/libraries.h"
#include "estimator/program/program.h"

namespace onnxfit {

// One run of a function: calls `first` to `last`, whose line calls it.
struct CachedRun {
  const CachedFunction* function = nullptr;
  int64_t first = 0;
  int64_t last = 0;
  bool is_kept = false;  // until it is asked for again, in this step and in those that follow
};

// Of all functions of libraries' tables, in order.  A result is kept where nothing else that the
// same function returns in a step needs its place, and it was made of sizes alone: a tensor that it
// is given is another in each step.  O(calls × frames + runs²).
std::vector<CachedRun> FindCachedRuns(const Program& program);

}  // namespace onnxfit
