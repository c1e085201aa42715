// The largest safe batch on one card, or what else is solved for.  Internal to the rooms fit/ and
// advise/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/fit/batch_runs.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/target.h"

namespace onnxfit {

// The largest that the model takes, though the card may have room for more.
struct SizeEnd {
  int64_t size = 0;
  std::string why = {};
};

class BatchSearch {
 public:
  // Both must outlive it.  `is_strict`: what is TIGHT does not run.
  BatchSearch(BatchLoops& loops, const Target& target, bool is_strict = false)
      : BatchSearch(std::vector<BatchLoops*>{&loops}, target, is_strict) {}
  // A batch runs where all of them do; the first decides which are too large for any allocator.
  BatchSearch(std::vector<BatchLoops*> loops, const Target& target, bool is_strict = false)
      : loops_(std::move(loops)),
        target_(target),
        is_strict_(is_strict),
        least_(loops_[0]->size().least),
        first_tried_(least_) {}

  // The largest N up to `limits` for which all that it stands for run; 0 where there is none.
  int64_t Largest(const BatchLimits& limits);

  // About that, for a few runs: begins at `likely`; what N stands for is read off, N itself is run.
  int64_t LargestAbout(int64_t likely, const BatchLimits& limits);

  // As Largest, of a size that may end, for about as few runs as that: the answer, some that it
  // stands for and the first failure above it are run, what else lies around them is read off.
  int64_t LargestSettled(const BatchLimits& limits);

  // nullopt where the card is full before, and of batches.
  std::optional<SizeEnd> End();

  // The first batch above a running one that fails, and those beyond it that run.
  int64_t FirstFailureAbove(int64_t batch);
  // The same of a size that may end: that one itself is run.
  int64_t FirstFailureAboutAbove(int64_t batch);
  std::vector<int64_t> RunningAbove(int64_t failing);
  int64_t StrideAbove(int64_t failing) { return StrideOver(FirstTooLarge() - failing); }

  // The first that fails of those that a batch stands for; nullopt: it is safe.
  std::optional<int64_t> FirstFailureAround(int64_t batch);

  // Whether ten steps run.  Played once a batch.
  bool Runs(int64_t batch);

  // The first batch that cannot run whatever the allocator does: its tensors alone are too much, or
  // where what is TIGHT does not count, with what libraries may ask for.
  int64_t FirstTooLarge();

 private:
  struct BatchPeak {
    int64_t batch = 0;
    int64_t bytes = 0;
  };

  BatchPeak PeakAt(int64_t batch);
  BatchPeak PeakOf(int64_t batch, const PlayableRun& run) const;
  BatchPeak SolvedPeakAt(int64_t size);
  int64_t LastBeside(int64_t batch);
  int64_t RoomBytes() const;
  bool IsTooLarge(const BatchPeak& peak) const;
  int64_t Meets(const BatchPeak& a, const BatchPeak& b) const;
  int64_t GuessBeyond(const std::vector<BatchPeak>& running) const;
  void Narrow(const BatchPeak& peak, BatchPeak& runs, BatchPeak& fails) const;
  int64_t LastRunning();
  bool Play(int64_t batch);
  bool PlayExactly(int64_t batch);
  bool RunsExactly(int64_t batch);
  bool IsSafeExactly(int64_t batch);
  int64_t LargestExactly(int64_t batch, int64_t multiple_of);
  bool Plays(const PlayableRun& run) const;
  int64_t FirstFailureBetween(int64_t runs, int64_t fails);

  std::vector<BatchLoops*> loops_;
  const Target& target_;
  const bool is_strict_;
  const int64_t least_;
  int64_t first_tried_;
  bool is_rough_ = false;  // reads off what it can
  std::map<int64_t, bool> runs_;
  std::map<int64_t, bool> exact_;  // by their own runs
  std::optional<int64_t> first_too_large_;
  std::map<int64_t, std::string> refused_;  // sizes that the model does not take, and why
};

}  // namespace onnxfit
