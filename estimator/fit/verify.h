// The estimate, carried out on the card at hand: what was predicted beside what was measured.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/device.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/gpu.h"
#include "estimator/memory/gpu_replay.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

struct VerifyLimits {
  int steps = kVerdictSteps;
  double tolerance = 0.05;  // of the prediction; any but 0 allows for a page of 2 MiB
};

enum class Proof : uint8_t {
  kPass,     // every term is as predicted, within the tolerance
  kFail,     // one is not, or a block lost what was written
  kOom,      // the card was full
  kStopped,  // somebody stopped it
};
std::string_view ToString(Proof proof);  // "pass", "fail", "oom", "stopped": the JSON's words

// One term, in bytes of the device beyond the context.
struct ProofRow {
  std::string what;  // "after setup", "peak of step 1", "peak of steps 3-10", "cached"
  int64_t predicted_bytes = 0;
  int64_t measured_bytes = 0;
  bool holds = true;

  int64_t difference_bytes() const { return measured_bytes - predicted_bytes; }
  bool operator==(const ProofRow&) const = default;
};

// Where the card was full.
struct ProofFailure {
  Failure failure;
  int64_t free_bytes = 0;      // of the card then
  bool was_predicted = false;  // a card that counts, with as much free, is full too, or nearly
};

struct Verification {
  Estimate estimate;  // of the same run, without cards
  DetectedGpu gpu;
  VerifyLimits limits;
  Proof proof = Proof::kPass;
  std::vector<ProofRow> rows = {};
  std::optional<ProofFailure> fails_at = {};
  GpuReplay predicted;  // on a card that counts, with as much free
  GpuReplay measured;
  // What this process held before any tensor, where the driver tells.
  std::optional<int64_t> context_bytes = {};

  // In how many phases the card lost exactly what the allocator was predicted to reserve.
  int64_t exact_phases() const;
};

// Terms of `measured` beside those of `predicted`, as far as both go.  Steps in a row whose
// figures are the same share a line.
std::vector<ProofRow> CompareReplays(const GpuReplay& predicted, const GpuReplay& measured,
                                     double tolerance);

// Predicts the run for the card's kernels (request.settings.device), and carries it out on `card`,
// which `gpu` describes.  Throws Error as MakeEstimate does, and what `card` throws.
Verification Verify(const Study& study, const EstimateRequest& request, const DetectedGpu& gpu,
                    Gpu& card, const VerifyLimits& limits = {}, const ReplayWatch& watch = {});

// What follows is the largest batch that the card at hand takes now, found by carrying batches out.

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
VerifiedMaxBatch FindMaxBatchOn(const Study& study, const EstimateRequest& request,
                                const DetectedGpu& gpu, Gpu& card, int steps = kVerdictSteps,
                                const ReplayWatch& watch = {});

}  // namespace onnxfit
