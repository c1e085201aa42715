#include "estimator/fit/batch_search.h"

#include <algorithm>
#include <limits>

namespace onnxfit {
namespace {

// Few batches are predicted on the way up; those between two of them can mostly be read off.
constexpr int64_t kStride = 8;

// A guess is off by about one part in so many; a batch stands for those one in 50 around it.
constexpr int64_t kNear = 32;

constexpr int64_t kNoPeak = std::numeric_limits<int64_t>::max();  // of batches beyond all

// The largest batch that stands for none from `failing` on.
int64_t LargestBelow(int64_t failing) {
  int64_t batch = failing - 1 - ReachOf(failing);
  while (batch + 1 + ReachOf(batch + 1) < failing) ++batch;
  return batch;
}

int64_t RoundDown(int64_t batch, int64_t step) { return batch / step * step; }

}  // namespace

int64_t BatchSearch::PeakAt(int64_t batch) {
  return PeakBytes(is_rough_ ? loops_[0]->Near(batch) : loops_[0]->Unmeasured(batch));
}

bool BatchSearch::IsTooLarge(int64_t batch) { return PeakAt(batch) > target_.capacity_bytes(); }

// Where the line through the two largest batches that run meets the card, or a stride further.
int64_t BatchSearch::GuessFirstTooLarge(const std::vector<BatchPeak>& running) const {
  if (running.empty()) return first_tried_;
  const BatchPeak& last = running.back();
  if (running.size() == 1)
    return is_rough_ ? last.batch + last.batch / 4 + 1 : last.batch * kStride;
  const BatchPeak& before = running[running.size() - 2];
  const int64_t per_sample = (last.bytes - before.bytes) / (last.batch - before.batch);
  if (per_sample <= 0) return last.batch * kStride;
  return last.batch + (target_.capacity_bytes() - last.bytes) / per_sample + 1;
}

// The exact peak never falls with the batch (law 3), so halving finds it.  (With the workspaces of
// those batches that were measured it would.)  A little below and above where it is likely, two
// are predicted: what lies between can mostly be read off.
int64_t BatchSearch::FirstTooLarge() {
  if (first_too_large_) return *first_too_large_;
  std::vector<BatchPeak> running;
  int64_t fails = 0;
  while (fails == 0) {
    const int64_t guess = GuessFirstTooLarge(running);
    const int64_t margin = running.size() < 2 ? 0 : guess / kNear;
    const int64_t batch = std::min(guess + margin, kMostBatch);
    const int64_t bytes = batch < kMostBatch ? PeakAt(batch) : kNoPeak;
    if (bytes > target_.capacity_bytes()) {
      fails = batch;
    } else {
      running.push_back({batch, bytes});
    }
  }
  int64_t runs = running.empty() ? 0 : running.back().batch;
  const int64_t near = fails - 2 * (fails / kNear);
  if (near > runs && near < fails) (IsTooLarge(near) ? fails : runs) = near;
  while (fails - runs > 1) {
    const int64_t middle = runs + (fails - runs) / 2;
    (IsTooLarge(middle) ? fails : runs) = middle;
  }
  first_too_large_ = fails;
  return fails;
}

bool BatchSearch::Runs(int64_t batch) {
  const auto [at, added] = runs_.try_emplace(batch, false);
  if (added) at->second = batch < FirstTooLarge() && Play(batch);
  return at->second;
}

bool BatchSearch::Play(int64_t batch) {
  return std::ranges::all_of(loops_, [&](BatchLoops* loops) {
    PlayableRun run = is_rough_ ? loops->Near(batch) : loops->At(batch);
    run.is_inference = false;  // how many fit side by side is not asked
    return is_strict_ ? Judge(run, target_).verdict == Verdict::kFits : RunsOn(run, target_);
  });
}

// From below: where many fail, the lowest one rules out most.
std::optional<int64_t> BatchSearch::FirstFailureAround(int64_t batch) {
  const int64_t reach = ReachOf(batch);
  const int64_t stride = StrideOver(2 * reach + 1);
  for (int64_t near = batch - reach; near < batch + reach; near += stride) {
    if (!Runs(near)) return FirstFailureBetween(std::max(batch - reach, near - stride), near);
  }
  if (Runs(batch + reach)) return std::nullopt;
  return FirstFailureBetween(std::max(batch - reach, batch + reach - stride), batch + reach);
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
  std::vector<int64_t> running;
  for (int64_t batch = failing + 1; batch < end; batch += StrideOver(end - failing)) {
    if (Runs(batch)) running.push_back(batch);
  }
  return running;
}

int64_t BatchSearch::Largest(const BatchLimits& limits) {
  int64_t batch = LargestBelow(FirstTooLarge());
  batch = RoundDown(std::min(batch, limits.most.value_or(batch)), limits.multiple_of);
  while (batch > 0) {
    const auto failing = FirstFailureAround(batch);
    if (!failing) return batch;
    batch = RoundDown(std::min(batch - 1, LargestBelow(*failing)), limits.multiple_of);
  }
  return 0;
}

int64_t BatchSearch::LargestAbout(int64_t likely, const BatchLimits& limits) {
  is_rough_ = true;
  first_tried_ = std::max<int64_t>(1, likely);
  if (IsTooLarge(first_tried_)) first_tried_ = 1;
  int64_t batch = Largest(limits);
  is_rough_ = false;
  while (batch > 0 && !Play(batch)) batch = RoundDown(batch - 1, limits.multiple_of);
  return batch;
}

}  // namespace onnxfit
