#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "estimator/compare/match_places.h"

namespace onnxfit::align_sizes_test {
namespace {

using Pairs = std::vector<std::pair<size_t, size_t>>;
using Sizes = std::vector<int64_t>;

TEST_CASE("what is in the middle of the longer list has no pair") {
  struct Row {
    Sizes before;
    Sizes after;
    Pairs pairs;
  };
  const Row rows[] = {
      {{}, {}, {}},
      {{8}, {}, {}},
      {{}, {8, 4}, {}},
      {{8, 4}, {8, 2, 4}, {{0, 0}, {1, 2}}},
      {{8, 2, 4}, {8, 4}, {{0, 0}, {2, 1}}},
      // Lists of one length item by item, whatever their sizes.
      {{8, 4, 2}, {4, 2, 8}, {{0, 0}, {1, 1}, {2, 2}}},
      {{1, 2}, {10, 20}, {{0, 0}, {1, 1}}},
      // In front, at the end.
      {{4, 2}, {8, 4, 2}, {{0, 1}, {1, 2}}},
      {{8, 4}, {8, 4, 2}, {{0, 0}, {1, 1}}},
      // Nothing in common: in order.
      {{1, 2}, {10, 20, 30}, {{0, 0}, {1, 1}}},
      {{10, 20, 30}, {1, 2}, {{0, 0}, {1, 1}}},
      // What has another size stays between its neighbours.
      {{8, 4, 2}, {8, 5, 2, 1}, {{0, 0}, {1, 1}, {2, 2}}},
      {{8, 4, 2}, {8, 5, 6, 2}, {{0, 0}, {1, 1}, {2, 3}}},
      {{7, 7, 7}, {7, 7, 7, 7}, {{0, 0}, {1, 1}, {2, 2}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.before);
    CAPTURE(row.after);
    CHECK(AlignSizes(row.before, row.after) == row.pairs);
  }
}

// How many equal pairs an order-preserving pairing has at most: each item has a pair or none.
int MostEqual(const Sizes& before, const Sizes& after, size_t i = 0, size_t j = 0) {
  if (i == before.size()) return 0;
  int most = MostEqual(before, after, i + 1, j);
  for (size_t k = j; k < after.size(); ++k) {
    const int here = before[i] == after[k] ? 1 : 0;
    most = std::max(most, here + MostEqual(before, after, i + 1, k + 1));
  }
  return most;
}

Sizes RandomSizes(std::mt19937& random) {
  Sizes sizes(random() % 6);
  for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 4);
  return sizes;
}

void CheckAscending(const Pairs& pairs) {
  for (size_t i = 1; i < pairs.size(); ++i) {
    CHECK(pairs[i - 1].first < pairs[i].first);
    CHECK(pairs[i - 1].second < pairs[i].second);
  }
}

TEST_CASE("as many equal pairs as any pairing in order has") {
  std::mt19937 random(20);
  for (int trial = 0; trial < 2000; ++trial) {
    const Sizes before = RandomSizes(random);
    const Sizes after = RandomSizes(random);
    CAPTURE(before);
    CAPTURE(after);
    const Pairs pairs = AlignSizes(before, after);
    CheckAscending(pairs);
    // No more go together than the shorter list has.
    CHECK(pairs.size() <= std::min(before.size(), after.size()));
    const auto equal = std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return before[pair.first] == after[pair.second];
    });
    if (before.size() == after.size()) {
      CHECK(pairs.size() == before.size());
    } else {
      CHECK(equal == MostEqual(before, after));
    }
  }
}

TEST_CASE("lists too long for a table are paired in order") {
  const Sizes before(2000, 8);
  Sizes after(2001, 8);
  after[0] = 4;
  CHECK(AlignSizes(before, after)[0] == std::pair(size_t{0}, size_t{0}));
  CHECK(AlignSizes(before, after).size() == 2000);
  // One that the table still takes.
  const Sizes shorter(1900, 8);
  CHECK(AlignSizes(shorter, after)[0] == std::pair(size_t{0}, size_t{1}));
}

}  // namespace
}  // namespace onnxfit::align_sizes_test
