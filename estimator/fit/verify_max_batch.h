// The largest batch that the card at hand takes now, found by carrying batches out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/base/detected_gpu.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/verify.h"
#include "estimator/graph/graph.h"
#include "estimator/memory/gpu.h"

namespace onnxfit {

// A batch that was carried out.
struct ReplayedBatch {
  int64_t batch = 0;
  std::optional<ProofFailure> failure = {};  // where the card was full
};

struct VerifiedMaxBatch {
  std::string model;  // its path
  TrainingSettings settings;
  std::map<std::string, int64_t> dims = {};
  DetectedGpu gpu;
  int steps = kVerdictSteps;
  int64_t free_bytes = 0;               // of the card, before the first replay
  MaxBatch predicted;                   // for a card of which as much is free
  int64_t batch = 0;                    // ran, and the next one failed; 0: not even one sample
  std::vector<ReplayedBatch> replayed;  // in the order in which they were tried
  int64_t wrong_bytes = 0;              // did not hold what was written
  bool was_stopped = false;             // `batch` is then the largest that ran until now
};

// Begins with the predicted batch and goes on by doubled steps, then by halves, until a batch
// runs and its successor fails.  (Beyond, luckier ones may run: the allocator is not monotone.)
// Throws Error as FindMaxBatches does, and what `card` throws.
VerifiedMaxBatch FindMaxBatchOn(const Graph& file, const EstimateRequest& request,
                                const DetectedGpu& gpu, Gpu& card, int steps = kVerdictSteps,
                                const ReplayWatch& watch = {});

}  // namespace onnxfit
