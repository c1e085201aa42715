// The loop of one run at any batch.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/verdict.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

// Predicts a few batches and reads those between them off: where the calls are the same at both
// ends and every buffer grows by the same whole number of bytes a sample, as two neighbours in
// between confirm.  (A rounded size would give itself away at one of two neighbours, a kernel
// chosen by size at the other end.)  Elsewhere every batch is predicted.
class BatchLoops {
 public:
  // `file` must outlive it.
  BatchLoops(const Graph& file, const EstimateRequest& request);

  // All of these may be called from several threads.
  // Ready to be played, as long as this lives.  REQUIRES: batch >= 1.  O(buffers) where it can be
  // read off, else a prediction.  Throws Error as Predict does.
  PlayableRun At(int64_t batch);

  // The same, always predicted.
  PlayableRun Predicted(int64_t batch);

 private:
  PlayableRun ReadOff(int64_t batch);

  struct Span {
    int64_t first = 0;
    int64_t last = 0;
  };

  const LoopedPrediction& Anchor(int64_t batch);
  const Span* FindSpan(int64_t batch) const;
  bool TrySpan(int64_t batch);
  bool IsEven(const Span& span);
  PlayableRun Between(const Span& span, int64_t batch);

  std::mutex mutex_;  // of all that follows
  const Graph& file_;
  EstimateRequest request_;
  std::map<int64_t, std::unique_ptr<LoopedPrediction>> anchors_;
  std::vector<Span> spans_;  // in which batches can be read off
  int failures_ = 0;         // of attempts to find one, since the last success
};

}  // namespace onnxfit
