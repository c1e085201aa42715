// One run at any batch: a few are recovered and traced, those between them read off.  What is said
// of batches holds for any size that is solved for.  Internal to the rooms fit/ and advise/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/missing_bytes.h"
#include "estimator/fit/batch_line.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/solved_size.h"
#include "estimator/fit/study.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/trace.h"
#include "estimator/onnx/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// What is asked at `batch`, without details and `why`.
EstimateRequest RequestAt(const Study& study, const EstimateRequest& request, int64_t batch);

// Recovers a few batches from the file and reads those between them off, where a further one in
// between confirms that this gives the same (program/between_batches.h).
class BatchPrograms {
 public:
  // `study` must outlive it.
  BatchPrograms(const Study& study, const EstimateRequest& request);
  BatchPrograms(const Study&& study, const EstimateRequest& request) = delete;
  BatchPrograms(const Study& study, const EstimateRequest& request, SolvedSize size);

  const SolvedSize& size() const { return size_; }

  // Before Dispatch.  May be called from several threads.  REQUIRES: batch >= 1.  O(calls) where
  // it can be read off, else a recovery.  Throws Error as PrepareRun does.
  Program At(int64_t batch);

  // That program, run by these settings, which are the same but for what only runs read.  All steps
  // of a verdict where a few do not repeat.  Kept for all who ask, until that is too much.
  SharedBatchRun Run(int64_t batch, const TrainingSettings& settings);

  // What warnings of the run say that is missing.  REQUIRES: At(batch) was asked.
  MissingBytes MissingAt(int64_t batch);

 private:
  struct Span {
    int64_t first = 0;
    int64_t last = 0;
  };

  const Program& Recovered(int64_t batch);
  void RecoverEnds(int64_t batch);
  const Span* FindSpan(int64_t batch) const;
  void TrySpan(int64_t batch);
  void Confirm(const Span& span, int64_t batch);
  MissingBytes MissingIn(const PreparedRun& run, int64_t batch) const;

  const Study& study_;
  const EstimateRequest request_;
  const SolvedSize size_;  // of request_
  std::mutex mutex_;       // of all that follows
  std::map<int64_t, Program> recovered_;
  std::map<int64_t, MissingBytes> missing_;  // of these
  std::vector<Span> spans_;                  // in which batches can be read off
  int failures_ = 0;                         // of attempts to find one

  std::mutex runs_mutex_;                                           // of all that follows
  std::map<std::pair<int64_t, std::string>, SharedBatchRun> runs_;  // by batch and KeyOf
  size_t kept_events_ = 0;                                          // of all of them
};

// Runs a few batches and reads those between them off: where the calls are the same at both
// ends and every buffer grows by the same whole number of bytes a sample, as two neighbours in
// between confirm.  (The neighbours are the roundest number and the next: there a rounded size
// gives itself away; a kernel chosen by size does at the other end.)  Elsewhere every batch is
// predicted, as is one of which cuDNN's workspaces were measured: no line leads to these.
class BatchLoops {
 public:
  // `programs` must outlive it, and be of the same request but for the device.
  BatchLoops(BatchPrograms& programs, const EstimateRequest& request);

  // Ready to be played.  May be called from several threads.  REQUIRES: batch >= 1.  O(buffers)
  // where it can be read off, else a run.  Throws Error as Predict does.
  PlayableRun At(int64_t batch);

  // The same, by a run of that very batch.
  PlayableRun Exactly(int64_t batch);

  const SolvedSize& size() const { return programs_.size(); }

  // The same as if no workspace had been measured, whose peak grows with the batch.
  PlayableRun Unmeasured(int64_t batch);

  // Whether workspaces of some batches were measured: of these, Near knows nothing.
  bool has_measured() const { return calibration_ != nullptr; }

  // The same, but read off between any two that were run, are close and make the same calls, though
  // a buffer of theirs may grow in steps: for a search whose result is run.
  PlayableRun Near(int64_t batch);

 private:
  struct Span {
    int64_t first = 0;
    int64_t last = 0;
  };

  SharedBatchRun Run(int64_t batch);
  bool IsFull() const;  // no further anchor is kept
  SharedBatchRun RunMeasured(int64_t batch);
  PlayableRun Playable(const SharedBatchRun& anchor, BatchSizes sizes) const;
  PlayableRun Whole(int64_t batch);
  const Span* FindSpan(int64_t batch) const;
  bool TrySpan(int64_t batch);
  bool IsEven(const Span& span);
  PlayableRun ReadOff(int64_t batch);
  PlayableRun WithKnown(int64_t batch, PlayableRun run);
  PlayableRun Between(const Span& span, int64_t batch);
  std::optional<Span> CloseSpan(int64_t batch);

  std::mutex mutex_;  // of all that follows
  BatchPrograms& programs_;
  EstimateRequest request_;        // without what was measured
  SharedCalibration calibration_;  // that, or null
  std::map<int64_t, SharedBatchRun> anchors_;
  std::map<int64_t, SharedBatchRun> measured_;   // null at batches of which nothing was measured
  size_t kept_events_ = 0;                       // of all anchors
  const std::shared_ptr<EndlessPlays> endless_;  // of all batches
  std::map<int64_t, std::shared_ptr<KnownPlays>> known_;  // of what At and Exactly give
  std::vector<Span> spans_;                               // in which batches can be read off
  int failures_ = 0;  // of attempts to find one, since the last success
};

// The least that any allocator needs for it, as PeakBlockBytes says.
inline int64_t PeakBytes(const PlayableRun& run) { return PeakBlockBytes(*run.loop, run.bytes); }

}  // namespace onnxfit
