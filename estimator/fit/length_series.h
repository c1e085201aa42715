// A run whose batches differ in length, step by step, on cards and on one that is never full.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/lengths.h"
#include "estimator/fit/study.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/series_run.h"

namespace onnxfit {

// Of the seeds, on one card.
struct SeriesOnCard {
  JudgedTarget judged;      // by the worst of the seeds
  int64_t dies = 0;         // so many of them fail,
  int32_t first_death = 0;  // the soonest in this step
  int64_t retries = 0;      // so many others run, but give cached memory back,
  int32_t first_retry = 0;  // the soonest in this step
};

// What another setting makes of the worst seed, where the card is never full.
struct SeriesChange {
  std::string flags = {};  // as they are typed
  std::string what = {};
  int64_t reserved_bytes = 0;
  double more_tokens = 0;  // of all, that are padding then: 0.05 is one in twenty
};

struct LengthSeries {
  std::string model;  // its path
  std::string dim = {};
  LengthOptions asked = {};
  TrainingSettings settings = {};
  int64_t batch = 0;         // the largest
  std::string reading = {};  // flags of the worse reading of the file, "" where nothing is open
  int64_t shortest = 0;      // of all seeds' steps
  int64_t longest = 0;
  int64_t different = 0;       // lengths that occur
  int64_t smallest_batch = 0;  // of all seeds' steps; below `batch` where they differ
  // The seed that reserves most on a card that is never full.
  uint64_t worst_seed = 0;
  std::vector<StepShape> shapes = {};  // its steps'
  SeriesRun endless = {};
  int64_t least_reserved_bytes = 0;  // of all seeds
  int64_t alike_bytes = 0;           // reserved where every batch is the largest
  std::vector<SeriesChange> changes = {};
  std::vector<SeriesOnCard> cards = {};
  Warnings warnings = {};  // of the longest
};

// Predicts the run at each length that occurs, then plays each seed's steps through the allocator:
// on a card that is never full, and on the request's targets.  `options.dim` "" is the one
// dimension that the file leaves free beside the batch.  A prediction a length, and a play a seed
// and card. `progress` is told how many lengths are predicted, from several threads. Throws Error
// as Predict does, where there is no such dimension, and where a step of one length cannot follow
// one of another.  Leaves changes out.
LengthSeries PlayLengths(const Study& study, const EstimateRequest& request,
                         const LengthOptions& options,
                         const std::function<void(size_t, size_t)>& progress = {});

// The same with what would change it: a play a change, and predictions of padded lengths.
LengthSeries PlayChangedLengths(const Study& study, const EstimateRequest& request,
                                const LengthOptions& options,
                                const std::function<void(size_t, size_t)>& progress = {});

// The verdict alone, on the first of the request's targets, whose kernels are the request's: for a
// search.  A play a seed; of a run that does not fit, `used_bytes` is all of the card.
JudgedTarget JudgeLengths(const Study& study, const EstimateRequest& request,
                          const LengthOptions& options);

}  // namespace onnxfit
