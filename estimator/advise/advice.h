// What would make a run fit a card, or its batch larger: changes of the run, each tried and
// judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// What would make the run of `request` fit a card on which it is TIGHT or OOM; nothing where it
// FITS.  Changes that are enough come first, of these the cheapest, of these what takes least time,
// of these what saves most.  Several together are among them where these cost less than each that
// is enough alone.  Throws Error as Predict does.  Some 20 predictions, 60 where combinations are
// tried.
std::vector<Advice> AdviseAtBatch(const Study& study, const EstimateRequest& request,
                                  const JudgedTarget& judged);

// What would raise the batch to take, in the same order; nothing where --max ends it.  What is said
// FITS where that does, else it runs.  `limits` are those of the answer.  A search for each change
// that saves bytes.
std::vector<Advice> AdviseMaxBatch(const Study& study, const EstimateRequest& request,
                                   const MaxBatch& answer, const BatchLimits& limits = {});

// Adds that to an estimate that has one card and to a largest batch of one card and run; leaves
// other answers alone.  REQUIRES: `answer` is of `request`.
void AddAdvice(const Study& study, const EstimateRequest& request, Estimate& estimate);
void AddAdvice(const Study& study, const EstimateRequest& request, const BatchLimits& limits,
               MaxBatchAnswer& answer);

}  // namespace onnxfit
