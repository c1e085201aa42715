#include "estimator/fit/advice_combinations.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace onnxfit {
namespace {

struct Combination {
  std::vector<size_t> singles;  // indices, rising
  int cost = 0;                 // ranks of the classes, added up
  int64_t hoped_bytes = 0;      // what it may save
};

const Change& ChangeOf(const Trial& single) { return single.changes[0]; }

class CombinationSearch {
 public:
  CombinationSearch(const AdviceCase& c, const Judgement& before, std::span<const Trial> singles)
      : case_(c), before_(before), singles_(singles) {
    for (size_t i = 0; i < singles.size(); ++i) saved_[{i}] = singles[i].saved_bytes;
  }

  std::optional<Trial> Find() {
    std::vector<Combination> some = WithOneMore({{}});
    for (const size_t most : {kMostPairs, kMostTriples}) {
      some = WithOneMore(some);
      if (auto found = FirstEnough(some, most)) return found;
    }
    return std::nullopt;
  }

 private:
  bool GoTogether(const Combination& some, size_t next) const {
    return std::none_of(some.singles.begin(), some.singles.end(), [&](size_t i) {
      return ChangeOf(singles_[i]).part == ChangeOf(singles_[next]).part;
    });
  }

  // Each of `some` with one more that comes after its last.
  std::vector<Combination> WithOneMore(const std::vector<Combination>& some) const {
    std::vector<Combination> more;
    for (const Combination& combination : some) {
      const size_t first = combination.singles.empty() ? 0 : combination.singles.back() + 1;
      for (size_t next = first; next < singles_.size(); ++next) {
        if (!GoTogether(combination, next)) continue;
        Combination longer = combination;
        longer.singles.push_back(next);
        longer.cost += static_cast<int>(ChangeOf(singles_[next]).cost_class);
        longer.hoped_bytes = HopedBytes(longer.singles);
        more.push_back(std::move(longer));
      }
    }
    return more;
  }

  // Savings of the same bytes do not add up, so the least that any part of it lets hope for.
  int64_t HopedBytes(const std::vector<size_t>& singles) const {
    int64_t sum = 0;
    for (const size_t i : singles) sum += std::max<int64_t>(0, singles_[i].saved_bytes);
    int64_t least = sum;
    for (const size_t i : singles) {
      std::vector<size_t> others = singles;
      std::erase(others, i);
      const auto known = saved_.find(others);
      if (known == saved_.end()) continue;
      const int64_t with_it = known->second + std::max<int64_t>(0, singles_[i].saved_bytes);
      least = std::min(least, with_it);
    }
    return least;
  }

  // Some may save more than is hoped, where each alone only moves the peak.
  void SortByPromise(std::vector<Combination>& some) const {
    const int64_t missing = before_.used_bytes - before_.usable_bytes;
    const auto rank = [missing](const Combination& x) {
      const bool promises = x.hoped_bytes >= missing;
      return std::tuple(!promises, promises ? x.cost : 0, -x.hoped_bytes);
    };
    std::stable_sort(some.begin(), some.end(),
                     [&](const Combination& a, const Combination& b) { return rank(a) < rank(b); });
  }

  std::optional<Trial> TryAll(const Combination& combination) const {
    std::vector<Change> changes;
    for (const size_t i : combination.singles) {
      const Change& change = ChangeOf(singles_[i]);
      changes.push_back(change.part == ChangedPart::kBatch ? AnySmallerBatch() : change);
    }
    return Try(case_, before_, changes);
  }

  std::optional<Trial> FirstEnough(std::vector<Combination> some, size_t most) {
    SortByPromise(some);
    for (size_t i = 0; i < std::min(most, some.size()); ++i) {
      std::optional<Trial> trial = TryAll(some[i]);
      if (!trial) continue;
      if (IsEnough(trial->judgement, before_)) return trial;
      saved_[some[i].singles] = trial->saved_bytes;
    }
    return std::nullopt;
  }

  const AdviceCase& case_;
  const Judgement& before_;
  const std::span<const Trial> singles_;
  std::map<std::vector<size_t>, int64_t> saved_;  // what was judged
};

}  // namespace

std::optional<Trial> FindCombination(const AdviceCase& c, const Judgement& before,
                                     std::span<const Trial> singles) {
  return CombinationSearch(c, before, singles).Find();
}

}  // namespace onnxfit
