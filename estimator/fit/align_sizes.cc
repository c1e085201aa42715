#include "estimator/fit/align_sizes.h"

#include <algorithm>

namespace onnxfit {
namespace {

using Pairs = std::vector<std::pair<size_t, size_t>>;
using Sizes = std::vector<int64_t>;

constexpr size_t kMostCells = 4'000'000;  // 16 MB

// By index into both: how many items what begins there has in common.
class CommonTable {
 public:
  CommonTable(const Sizes& before, const Sizes& after)
      : columns_(after.size() + 1), cells_((before.size() + 1) * columns_) {
    for (size_t i = before.size(); i-- > 0;) {
      for (size_t j = after.size(); j-- > 0;) {
        const bool is_same = before[i] == after[j];
        cells_[i * columns_ + j] =
            is_same ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
      }
    }
  }

  int32_t at(size_t i, size_t j) const { return cells_[i * columns_ + j]; }

 private:
  size_t columns_;
  std::vector<int32_t> cells_;
};

// From (i, j) on, as many as both have before `i_end` and `j_end`.
void PairInOrder(size_t i, size_t i_end, size_t j, size_t j_end, Pairs& pairs) {
  while (i < i_end && j < j_end) pairs.emplace_back(i++, j++);
}

Pairs AlignByTable(const Sizes& before, const Sizes& after) {
  const CommonTable common(before, after);
  Pairs pairs;
  size_t i = 0;
  size_t j = 0;
  size_t i_gap = 0;
  size_t j_gap = 0;
  while (i < before.size() && j < after.size()) {
    if (before[i] == after[j]) {
      PairInOrder(i_gap, i, j_gap, j, pairs);
      pairs.emplace_back(i++, j++);
      i_gap = i;
      j_gap = j;
    } else if (common.at(i + 1, j) >= common.at(i, j + 1)) {
      ++i;
    } else {
      ++j;
    }
  }
  PairInOrder(i_gap, before.size(), j_gap, after.size(), pairs);
  return pairs;
}

}  // namespace

Pairs AlignSizes(const Sizes& before, const Sizes& after) {
  const bool is_small = (before.size() + 1) * (after.size() + 1) <= kMostCells;
  if (before.size() != after.size() && is_small) return AlignByTable(before, after);
  Pairs pairs;
  PairInOrder(0, before.size(), 0, after.size(), pairs);
  return pairs;
}

}  // namespace onnxfit
