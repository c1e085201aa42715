#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/advise/trials.h"

namespace onnxfit {
namespace {

constexpr CostClass kCeilings[] = {CostClass::kFree, CostClass::kTime, CostClass::kTuning,
                                   CostClass::kPrecision, CostClass::kTrainsLess};

const Change& ChangeOf(const Trial& single) { return single.changes[0]; }

using Picked = std::vector<size_t>;  // indices of singles

class CombinationSearch {
 public:
  CombinationSearch(const AdviceCase& c, const Judgement& before, std::span<const Trial> singles)
      : case_(c), before_(before), singles_(singles) {}

  std::optional<Trial> Find() {
    for (const CostClass ceiling : kCeilings) {
      if (IsAnyEnough(ceiling)) return std::nullopt;
      if (!HasAny(ceiling)) continue;
      for (const ChangedPart without : {ChangedPart::kBatch, ChangedPart::kStepInBackward}) {
        const Picked most = MostOf(ceiling, without);
        if (std::optional<Trial> all = TryAll(most)) return Spare(most, std::move(*all));
      }
    }
    return std::nullopt;
  }

 private:
  bool IsAnyEnough(CostClass ceiling) const {
    return std::ranges::any_of(singles_, [&](const Trial& single) {
      return ChangeOf(single).cost_class <= ceiling && IsEnough(single.judgement, before_);
    });
  }

  bool HasAny(CostClass ceiling) const {
    return std::ranges::any_of(
        singles_, [&](const Trial& single) { return ChangeOf(single).cost_class == ceiling; });
  }

  // What saves most of each part up to a class of cost.  An optimizer that steps in backward waits
  // for no further micro-batch, so that one of them is left out.
  Picked MostOf(CostClass ceiling, ChangedPart without) const {
    Picked picked;
    for (size_t i = 0; i < singles_.size(); ++i) {
      const Change& change = ChangeOf(singles_[i]);
      const bool saves = singles_[i].saved_bytes > 0 || change.part == ChangedPart::kAllocator;
      if (change.cost_class > ceiling || change.part == without || !saves) continue;
      const auto same = std::ranges::find_if(
          picked, [&](size_t other) { return ChangeOf(singles_[other]).part == change.part; });
      if (same == picked.end()) {
        picked.push_back(i);
      } else if (singles_[i].saved_bytes > singles_[*same].saved_bytes) {
        *same = i;
      }
    }
    return picked;
  }

  // Whether a change of one part costs less: those of the table stand in order of what they change.
  bool IsCheaper(size_t a, size_t b) const {
    const auto cost = [&](size_t i) { return std::tuple(ChangeOf(singles_[i]).cost_class, i); };
    return cost(a) < cost(b);
  }

  // `picked`, which are enough, without those that need not be, the costliest first; in the place
  // of others what costs less.
  Trial Spare(Picked picked, Trial enough) {
    Picked costliest = picked;
    std::ranges::sort(costliest, [&](size_t a, size_t b) {
      const auto cost = [&](size_t i) {
        return std::tuple(ChangeOf(singles_[i]).cost_class, ChangeOf(singles_[i]).slower_percent,
                          i);
      };
      return cost(a) > cost(b);
    });
    for (const size_t single : costliest) {
      for (const std::optional<size_t> other : InPlaceOf(single)) {
        Picked fewer = picked;
        std::erase(fewer, single);
        if (other) fewer.push_back(*other);
        std::optional<Trial> trial = TryAll(fewer);
        if (!trial) continue;
        picked = fewer;
        enough = std::move(*trial);
        break;
      }
    }
    return enough;
  }

  // Nothing, then what costs less of the same part, the cheapest first.
  std::vector<std::optional<size_t>> InPlaceOf(size_t single) const {
    std::vector<std::optional<size_t>> others = {std::nullopt};
    for (size_t i = 0; i < singles_.size(); ++i) {
      const bool is_same_part = ChangeOf(singles_[i]).part == ChangeOf(singles_[single]).part;
      if (is_same_part && IsCheaper(i, single) && singles_[i].saved_bytes > 0) {
        others.emplace_back(i);
      }
    }
    return others;
  }

  // In the order of `singles`; nullopt where they are not enough, or do not go together.
  std::optional<Trial> TryAll(Picked picked) {
    if (picked.size() < 2 || ++tried_ > kMostCombined) return std::nullopt;
    std::ranges::sort(picked);
    std::vector<Change> changes;
    for (const size_t i : picked) {
      const Change& change = ChangeOf(singles_[i]);
      changes.push_back(change.part == ChangedPart::kBatch ? AnySmallerBatch() : change);
    }
    std::optional<Trial> trial = Try(case_, before_, changes);
    if (trial && !IsEnough(trial->judgement, before_)) trial.reset();
    return trial;
  }

  const AdviceCase& case_;
  const Judgement& before_;
  const std::span<const Trial> singles_;
  int tried_ = 0;
};

}  // namespace

std::optional<Trial> FindCombination(const AdviceCase& c, const Judgement& before,
                                     std::span<const Trial> singles) {
  return CombinationSearch(c, before, singles).Find();
}

}  // namespace onnxfit
