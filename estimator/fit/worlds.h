// Over how many ranks a run has to be shared.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/study.h"
#include "estimator/fit/target.h"

namespace onnxfit {

// All ranks, of which each has a card: those that have a batch each, and those with which each of
// them shares layers.
constexpr int64_t CountRanks(const RankSettings& ranks) {
  return (ranks.strategy == Strategy::kNone ? 1 : ranks.world) * ranks.tensor_parallel;
}

inline constexpr int64_t kMostWorld = 1024;  // that is tried

// What each rank has on `target` where 1, 2, 4, … share the run, at the request's batch on each:
// up to the first that FITS, or kMostWorld.  Throws Error as Predict does, and where no strategy
// is asked for.  A prediction for each.
std::vector<WorldOutcome> JudgeWorlds(const Study& study, const EstimateRequest& request,
                                      const Target& target);

// The one to take: the first that FITS, else the first that runs, else the last.
// REQUIRES: there is one.
int64_t WorldToTake(const std::vector<WorldOutcome>& worlds);

}  // namespace onnxfit
