// The largest batch that a card trains, safely.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

struct BatchLimits {
  int64_t multiple_of = 1;
  std::optional<int64_t> most = {};  // --max
};

// A batch near the answer, judged.
struct BatchOutcome {
  int64_t batch = 0;
  Judgement judgement;
};

struct MaxBatch {
  Target target;
  // The largest N for which every batch from N - N/50 to N + N/50 runs; 0: not even one sample.
  int64_t batch = 0;
  bool at_limit = false;                  // --max, not the card, ends it
  Judgement judgement;                    // of that batch; of batch 1 where it is 0
  std::vector<int64_t> luckier = {};      // larger ones that run, though one near them does not
  std::optional<BatchOutcome> next = {};  // why not one more: the first above it that fails
  int64_t fixed_bytes = 0;       // tensors grow by about per_sample_bytes a sample above this:
  int64_t per_sample_bytes = 0;  // the line through what batch 1 and the answer allocate
};

// One answer a target, in their order.  Throws Error as Predict does, and where the batch of the
// file cannot be changed.
std::vector<MaxBatch> FindMaxBatches(const Graph& file, const EstimateRequest& request,
                                     std::span<const Target> targets,
                                     const BatchLimits& limits = {});

}  // namespace onnxfit
