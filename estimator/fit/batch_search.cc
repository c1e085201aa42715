#include "estimator/fit/batch_search.h"

#include <algorithm>
#include <limits>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// Few batches are predicted on the way up; those between two of them can mostly be read off.
constexpr int64_t kStride = 8;

// A guess is off by about one part in so many; a batch stands for those one in 50 around it.
constexpr int64_t kNear = 32;

// Some run by luck above one that fails: so much of it is looked at, too.
constexpr int64_t kAbove = 8;

constexpr int64_t kNoPeak = std::numeric_limits<int64_t>::max();  // of batches beyond all

// The largest batch that stands for none from `failing` on.
int64_t LargestBelow(int64_t failing) {
  int64_t batch = failing - 1 - ReachOf(failing);
  while (batch + 1 + ReachOf(batch + 1) < failing) ++batch;
  return batch;
}

int64_t RoundDown(int64_t batch, int64_t step) { return batch / step * step; }

}  // namespace

// Read off where two that were run are close: where none of a few bytes more runs, nor do they.
BatchSearch::BatchPeak BatchSearch::PeakAt(int64_t batch) {
  if (batch >= kMostBatch) return {batch, kNoPeak};
  if (loops_[0]->size().may_end) return SolvedPeakAt(batch);
  return PeakOf(batch, loops_[0]->Near(batch));
}

// A size that the model does not take is too large, or too small.  All are run: mostly they are few
// and on no line.
BatchSearch::BatchPeak BatchSearch::SolvedPeakAt(int64_t size) {
  if (size < least_) return {size, 0};
  if (size > loops_[0]->size().most) {
    refused_.emplace(size, "no larger one is looked at");
    return {size, kNoPeak};
  }
  try {
    return PeakOf(size, loops_[0]->Exactly(size));
  } catch (const Error& error) {
    const std::string& where = error.parts().where;
    refused_.emplace(size, where + (where.empty() ? "" : ": ") + error.parts().text);
    return {size, kNoPeak};
  }
}

BatchSearch::BatchPeak BatchSearch::PeakOf(int64_t batch, const PlayableRun& run) const {
  const int64_t bytes = PeakBytes(run);
  // What FITS leaves room for all that libraries may ask for.
  if (is_strict_ && !run.missing.unbounded.empty()) return {batch, kNoPeak};
  const bool leaves_room = is_strict_ && !loops_[0]->has_measured();
  return {batch, bytes + (leaves_room ? std::min(run.room_beside(bytes), kNoPeak - bytes) : 0)};
}

int64_t BatchSearch::RoomBytes() const {
  return is_strict_ ? target_.least_capacity_bytes() : target_.capacity_bytes();
}

bool BatchSearch::IsTooLarge(const BatchPeak& peak) const { return peak.bytes > RoomBytes(); }

// Where the line through two peaks meets the card; 0 where it does not.
int64_t BatchSearch::Meets(const BatchPeak& a, const BatchPeak& b) const {
  const int64_t per_sample = (b.bytes - a.bytes) / (b.batch - a.batch);
  if (per_sample <= 0 || b.bytes == kNoPeak) return 0;
  return a.batch + (RoomBytes() - a.bytes) / per_sample + 1;
}

// A little beyond where the two largest batches that run point to, or a stride further.
int64_t BatchSearch::GuessBeyond(const std::vector<BatchPeak>& running) const {
  if (running.empty()) return first_tried_;
  const int64_t last = running.back().batch;
  if (running.size() == 1) return first_tried_ > least_ ? last + last / 4 + 1 : last * kStride;
  const int64_t meets = Meets(running[running.size() - 2], running.back());
  if (meets == 0) return last * kStride;
  return std::clamp(meets + meets / kNear, last + 1, last * kStride * kStride);
}

// The exact peak never falls with the batch (law 3), so what lies between one that runs and one
// that fails can be halved.  (With the workspaces of those batches that were measured it could
// not.)  It mostly grows along a line, which leads there sooner.
int64_t BatchSearch::FirstTooLarge() {
  if (first_too_large_) return *first_too_large_;
  std::vector<BatchPeak> running;
  BatchPeak fails = {kMostBatch, kNoPeak};
  while (fails.batch == kMostBatch && (running.empty() || running.back().batch + 1 < kMostBatch)) {
    const BatchPeak peak = PeakAt(std::min(GuessBeyond(running), kMostBatch - 1));
    if (IsTooLarge(peak)) {
      fails = peak;
    } else {
      running.push_back(peak);
    }
  }
  BatchPeak runs = running.empty() ? BatchPeak{} : running.back();
  if (running.empty() && fails.batch > least_) Narrow(PeakAt(least_), runs, fails);
  for (bool along_line = true; fails.batch - runs.batch > 1; along_line = !along_line) {
    const int64_t meets = along_line && runs.batch > 0 ? Meets(runs, fails) : 0;
    const int64_t halved = runs.batch + (fails.batch - runs.batch) / 2;
    const int64_t next = meets == 0 ? halved : std::clamp(meets, runs.batch + 1, fails.batch - 1);
    Narrow(PeakAt(next), runs, fails);
  }
  first_too_large_ = fails.batch;
  return fails.batch;
}

void BatchSearch::Narrow(const BatchPeak& peak, BatchPeak& runs, BatchPeak& fails) const {
  (IsTooLarge(peak) ? fails : runs) = peak;
}

std::optional<SizeEnd> BatchSearch::End() {
  if (!loops_[0]->size().may_end) return std::nullopt;
  const auto refused = refused_.find(FirstTooLarge());
  if (refused == refused_.end()) return std::nullopt;
  return SizeEnd{refused->first - 1, refused->second};
}

bool BatchSearch::Runs(int64_t batch) {
  if (const auto known = exact_.find(batch); known != exact_.end()) return known->second;
  const auto [at, added] = runs_.try_emplace(batch, false);
  if (added) at->second = batch >= least_ && batch < FirstTooLarge() && Play(batch);
  return at->second;
}

bool BatchSearch::Play(int64_t batch) {
  if (is_rough_ || loops_[0]->size().may_end) return Plays(loops_[0]->Near(batch));
  return std::ranges::all_of(loops_, [&](BatchLoops* loops) { return Plays(loops->At(batch)); });
}

bool BatchSearch::PlayExactly(int64_t batch) {
  return std::ranges::all_of(loops_,
                             [&](BatchLoops* loops) { return Plays(loops->Exactly(batch)); });
}

bool BatchSearch::Plays(const PlayableRun& run) const {
  return is_strict_ ? FitsOn(run, target_) : RunsOn(run, target_);
}

// The largest that `batch` stands for: there is none beyond what the model takes.
int64_t BatchSearch::LastBeside(int64_t batch) {
  const int64_t last = batch + ReachOf(batch);
  const std::optional<SizeEnd> end = End();
  return end ? std::clamp(last, batch, std::max(batch, end->size)) : last;
}

// From below: where many fail, the lowest one rules out most.
std::optional<int64_t> BatchSearch::FirstFailureAround(int64_t batch) {
  const int64_t first = std::max(least_, batch - ReachOf(batch));
  const int64_t last = LastBeside(batch);
  const int64_t stride = StrideOver(last - first + 1);
  for (int64_t near = first; near < last; near += stride) {
    if (!Runs(near)) return FirstFailureBetween(std::max(first, near - stride), near);
  }
  if (Runs(last)) return std::nullopt;
  return FirstFailureBetween(std::max(first, last - stride), last);
}

// Where one runs and the other fails, or they are the same; halves what lies between.
int64_t BatchSearch::FirstFailureBetween(int64_t runs, int64_t fails) {
  while (fails - runs > 1) {
    const int64_t middle = runs + (fails - runs) / 2;
    (Runs(middle) ? runs : fails) = middle;
  }
  return fails;
}

int64_t BatchSearch::FirstFailureAbove(int64_t batch) {
  const int64_t stride = StrideOver(2 * ReachOf(batch) + 1);
  int64_t fails = batch + 1;
  while (fails < FirstTooLarge() && Runs(fails)) fails += stride;
  fails = std::min(fails, FirstTooLarge());
  return FirstFailureBetween(std::max(batch, fails - stride), fails);
}

std::vector<int64_t> BatchSearch::RunningAbove(int64_t failing) {
  const int64_t end = FirstTooLarge();
  const int64_t stride = StrideAbove(failing);
  std::vector<int64_t> running;
  for (int64_t batch = failing + 1; batch < end; batch += stride) {
    if (Runs(batch)) running.push_back(batch);
  }
  return running;
}

int64_t BatchSearch::Largest(const BatchLimits& limits) {
  const std::optional<SizeEnd> end = End();
  int64_t batch = end ? end->size : LargestBelow(FirstTooLarge());
  batch = RoundDown(std::min(batch, limits.most.value_or(batch)), limits.multiple_of);
  while (batch >= least_) {
    const auto failing = FirstFailureAround(batch);
    if (!failing) return batch;
    batch = RoundDown(std::min(batch - 1, LargestBelow(*failing)), limits.multiple_of);
  }
  return 0;
}

// Between what is likely and what is too large: about the last that runs, whatever lies between.
int64_t BatchSearch::LastRunning() {
  int64_t runs = Runs(first_tried_) ? first_tried_ : 0;
  int64_t fails = FirstTooLarge();
  if (runs >= fails) return fails;
  if (fails > 1 && Runs(fails - 1)) return fails - 1;
  while (fails - runs > 1 + fails / kNear) {
    const int64_t middle = runs + (fails - runs) / 2;
    (Runs(middle) ? runs : fails) = middle;
  }
  return fails;
}

int64_t BatchSearch::LargestAbout(int64_t likely, const BatchLimits& limits) {
  is_rough_ = true;
  first_tried_ = std::max(least_, likely);
  BatchLimits own = limits;
  const int64_t last = LastRunning();
  own.most = std::min(last + last / kAbove, limits.most.value_or(kMostBatch));
  int64_t batch = Largest(own);
  is_rough_ = false;
  return LargestExactly(batch, limits.multiple_of);
}

// `batch`, or what is below it and runs by its own run: rough runs of large batches of small
// samples may be off by thousands.
int64_t BatchSearch::LargestExactly(int64_t batch, int64_t multiple_of) {
  if (batch <= 0 || PlayExactly(batch)) return batch;
  int64_t fails = batch;
  int64_t runs = 0;
  for (int64_t step = multiple_of; runs == 0 && step < fails; step *= 2) {
    const int64_t tried = RoundDown(fails - step, multiple_of);
    if (tried >= least_) (PlayExactly(tried) ? runs : fails) = tried;
  }
  for (int64_t step = fails - runs; runs > 0 && step > multiple_of; step = fails - runs) {
    const int64_t tried = runs + std::max(RoundDown(step / 2, multiple_of), multiple_of);
    (PlayExactly(tried) ? runs : fails) = tried;
  }
  return runs;
}

int64_t BatchSearch::FirstFailureAboutAbove(int64_t batch) {
  runs_.clear();  // what was run since then tells more
  int64_t fails = FirstFailureAbove(std::max(batch, least_ - 1));
  while (RunsExactly(fails)) fails = FirstFailureAbove(fails);
  return fails;
}

bool BatchSearch::RunsExactly(int64_t batch) {
  const auto [at, added] = exact_.try_emplace(batch, false);
  if (added) at->second = batch < FirstTooLarge() && PlayExactly(batch);
  return at->second;
}

// Whether those run that `batch` stands for: a few that lie evenly.
bool BatchSearch::IsSafeExactly(int64_t batch) {
  constexpr int64_t kRuns = 8;
  const int64_t first = std::max(least_, batch - ReachOf(batch));
  const int64_t last = LastBeside(batch);
  const int64_t stride = std::max<int64_t>(1, (last - first) / kRuns);
  for (int64_t near = first; near <= last; near += stride) {
    if (!RunsExactly(near)) return false;
  }
  return RunsExactly(last);
}

// Where more runs than rough runs said, a larger one may be safe.
int64_t BatchSearch::LargestSettled(const BatchLimits& limits) {
  constexpr int kMostRounds = 4;
  int64_t batch = LargestAbout(least_, limits);
  for (int round = 0; batch > 0 && round < kMostRounds; ++round) {
    if (batch + limits.multiple_of > limits.most.value_or(kMostBatch)) break;
    const int64_t fails = FirstFailureAboutAbove(batch);
    BatchLimits above = limits;
    above.most = std::min(limits.most.value_or(fails - 1), fails - 1);
    const int64_t larger = Largest(above);
    if (larger <= batch || !RunsExactly(larger)) break;
    batch = larger;
  }
  BatchLimits below = limits;
  while (batch > 0 && !IsSafeExactly(batch)) {
    below.most = batch - 1;
    batch = Largest(below);
  }
  return batch;
}

}  // namespace onnxfit
