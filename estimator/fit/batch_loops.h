// The loop of one run at any batch.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/fit/batch_programs.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

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

  // A batch that was run.
  struct Anchor {
    Trace trace;
    Loop loop;
    std::vector<int64_t> bytes;  // of each buffer, and at the end what libraries may ask for
  };

  using SharedAnchor = std::shared_ptr<const Anchor>;

  struct AnchorAt {
    int64_t batch = 0;
    const Anchor& anchor;
  };

  SharedAnchor Run(int64_t batch);
  bool IsFull() const;  // no further anchor is kept
  std::shared_ptr<Anchor> RunNow(const Program& program, const TrainingSettings& settings) const;
  SharedAnchor RunMeasured(int64_t batch);
  static bool AreOnLine(const AnchorAt& first, const AnchorAt& last, const AnchorAt& middle);
  PlayableRun Playable(const SharedAnchor& anchor, std::vector<int64_t> bytes) const;
  PlayableRun Whole(int64_t batch);
  const Span* FindSpan(int64_t batch) const;
  bool TrySpan(int64_t batch);
  bool IsEven(const Span& span);
  PlayableRun ReadOff(int64_t batch);
  PlayableRun Between(const Span& span, int64_t batch);
  std::optional<Span> CloseSpan(int64_t batch);

  std::mutex mutex_;  // of all that follows
  BatchPrograms& programs_;
  EstimateRequest request_;        // without what was measured
  SharedCalibration calibration_;  // that, or null
  std::map<int64_t, SharedAnchor> anchors_;
  std::map<int64_t, SharedAnchor> measured_;  // null at batches of which nothing was measured
  size_t kept_events_ = 0;                    // of all anchors
  std::vector<Span> spans_;                   // in which batches can be read off
  int failures_ = 0;                          // of attempts to find one, since the last success
};

// The least that any allocator needs for it, as PeakBlockBytes says.
inline int64_t PeakBytes(const PlayableRun& run) { return PeakBlockBytes(*run.loop, run.bytes); }

}  // namespace onnxfit
