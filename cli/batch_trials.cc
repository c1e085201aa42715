#include "cli/batch_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr int64_t kFar = 8;  // times as large as what runs: further on no line is believed
constexpr int64_t kWider = 4;
constexpr int64_t kCloseEnough = 64;  // a search ends where what is open is so small a part

class Search {
 public:
  Search(const TrialLimits& limits, const std::function<JudgedTarget(int64_t)>& run)
      : limits_(limits), run_(run) {
    found_.multiple_of = limits.multiple_of;
  }

  TriedBatches Find() {
    Climb();
    Narrow();
    found_.batch = runs_;
    found_.fits_batch = fits_;
    found_.is_limited = !fails_;
    found_.fails = fails_;
    found_.does_not_fit = misfits_;
    return std::move(found_);
  }

 private:
  int64_t Down(int64_t batch) const { return batch - batch % limits_.multiple_of; }
  int64_t Up(int64_t batch) const { return Down(batch + limits_.multiple_of - 1); }

  // What a search leaves open.
  int64_t Grain(int64_t batch) const {
    if (limits_.is_exact) return limits_.multiple_of;
    return std::max(limits_.multiple_of, Down(batch / kCloseEnough));
  }

  // Along the line through the last two that fit, until one does not run.  What grows by less than
  // the line says is met by strides that widen.
  void Climb() {
    const int64_t most = Down(limits_.most);
    int64_t stride = 0;
    for (int64_t batch = Up(limits_.least); batch <= most; batch = std::min(batch, most)) {
      if (!Runs(batch) || batch == most) return;
      stride = std::max(kWider * stride, Grain(batch));
      const int64_t along = AlongFrom(batch);
      const bool is_by_line = fits_ == batch && along > batch + stride;
      batch = std::max(along, batch + stride);
      if (is_by_line) stride = 0;
    }
  }

  // Where the line says that the card is full, if there is a line; a TIGHT one is nearly there.
  int64_t AlongFrom(int64_t batch) const {
    if (fits_ < batch) return Down(batch + batch / 4);
    return meets_ > 0 ? std::min(Down(meets_), kFar * batch) : 2 * batch;
  }

  // Between what runs and what does not; then, where the largest that runs is TIGHT, between what
  // fits and what does not, as long as that takes no more runs than halving everything would.
  void Narrow() {
    const size_t allowed = MostRuns();
    while (fails_ && runs_ > 0 && *fails_ - runs_ > Grain(runs_)) {
      Runs(Between(runs_, *fails_));
    }
    while (misfits_ && fits_ > 0 && *misfits_ - fits_ > Grain(fits_) &&
           found_.tried.size() < allowed) {
      Runs(Between(fits_, *misfits_));
    }
  }

  size_t MostRuns() const {
    const int64_t range = (limits_.most - limits_.least) / limits_.multiple_of + 1;
    return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(range))) + 2;
  }

  // Where the line meets the card, unless that was tried or the last try along it was of little
  // use; else the middle.
  int64_t Between(int64_t low, int64_t high) {
    const bool is_open = low == fits_ && meets_ >= low && meets_ < high;
    const bool was_useful = !was_along_ || 2 * (high - low) <= width_;
    was_along_ = is_open && was_useful;
    width_ = high - low;
    const int64_t next = Down(was_along_ ? meets_ : low + (high - low) / 2);
    const int64_t first = low + Grain(low);
    return std::clamp(next, first, std::max(first, high - Grain(low)));
  }

  bool Runs(int64_t batch) {
    const Judgement judgement = run_(batch).judgement;
    found_.tried.push_back({batch, judgement.verdict, judgement.used_bytes});
    const bool fits = judgement.verdict == Verdict::kFits;
    const bool runs = fits || (judgement.verdict == Verdict::kTight && !limits_.is_strict);
    if (fits) NoteFitting(batch, judgement);
    if (!fits) misfits_ = std::min(misfits_.value_or(batch), batch);
    if (!runs) fails_ = std::min(fails_.value_or(batch), batch);
    // Not everything takes more for a larger batch: of several answers the largest counts.
    if (runs) runs_ = std::max(runs_, batch);
    return runs;
  }

  // A card that was full shows no more of what a sample takes.
  void NoteFitting(int64_t batch, const Judgement& judgement) {
    const int64_t more = judgement.used_bytes - used_;
    if (line_batch_ > 0 && batch != line_batch_) {
      const int64_t a_sample = more / (batch - line_batch_);
      meets_ = 0;
      if (a_sample > 0) {
        found_.per_sample_bytes = a_sample;
        found_.fixed_bytes = judgement.used_bytes - a_sample * batch;
        meets_ = (judgement.usable_bytes - found_.fixed_bytes) / a_sample;
      }
    }
    line_batch_ = batch;
    used_ = judgement.used_bytes;
    fits_ = std::max(fits_, batch);
  }

  const TrialLimits limits_;
  const std::function<JudgedTarget(int64_t)>& run_;
  TriedBatches found_;
  int64_t runs_ = 0;                     // the largest so far
  int64_t fits_ = 0;                     // the same without TIGHT ones
  std::optional<int64_t> fails_ = {};    // the least that does not run
  std::optional<int64_t> misfits_ = {};  // that does not fit
  int64_t line_batch_ = 0;               // the last that fitted
  int64_t used_ = 0;                     // by it
  int64_t meets_ = 0;       // where the line through the last two meets the card; 0: none
  bool was_along_ = false;  // the last try was along it
  int64_t width_ = 0;       // between what runs and what does not, before it
};

}  // namespace

TrialLimits LimitsAsAsked(const Options& options, int64_t most) {
  return {.least = options.limits.multiple_of,
          .most = options.limits.most.value_or(most),
          .multiple_of = options.limits.multiple_of,
          .is_strict = options.is_strict};
}

TriedBatches TryBatches(const TrialLimits& limits,
                        const std::function<JudgedTarget(int64_t)>& run) {
  if (limits.most / limits.multiple_of * limits.multiple_of < limits.least) {
    throw Error({.where = "--multiple-of",
                 .text = fmt::format("expected a multiple of {} from {} to {}, found none",
                                     limits.multiple_of, limits.least, limits.most)});
  }
  return Search(limits, run).Find();
}

}  // namespace onnxfit
