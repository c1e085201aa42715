#include "estimator/compare/match_places.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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

// What follows pairs places.
namespace {

using Places = std::vector<const Place*>;

struct Key {
  std::string_view text;  // "" for a place that has none
  std::string_view op = {};
  int64_t bytes = 0;

  bool operator<(const Key& other) const {
    return std::tie(text, op, bytes) < std::tie(other.text, other.op, other.bytes);
  }
};

struct Family {
  Places before;
  Places after;
};

Places PointersTo(const std::vector<Place>& places) {
  Places pointers;
  for (const Place& place : places) pointers.push_back(&place);
  return pointers;
}

std::vector<int64_t> SizesOf(const Places& places) {
  std::vector<int64_t> sizes;
  for (const Place* place : places) sizes.push_back(place->bytes);
  return sizes;
}

// Those of one stem, by their number: "relu" before "relu_1", "relu_9" before "relu_10".
void SortByNumber(Places& places) {
  std::sort(places.begin(), places.end(), [](const Place* a, const Place* b) {
    return std::pair(a->name.size(), std::string_view(a->name)) <
           std::pair(b->name.size(), std::string_view(b->name));
  });
}

// "layer1.0.conv1.weight" of "model.layer1.0.conv1.weight"; "" of a name of one part.
std::string_view WithoutOutermost(std::string_view name) {
  if (name.starts_with('/')) name.remove_prefix(1);
  const size_t end = name.find_first_of("./");
  return end == std::string_view::npos ? std::string_view() : name.substr(end + 1);
}

// What a place is known by, from the surest to the least.
Key ByName(const Place& place) { return StemOf(place.name).empty() ? Key{place.name} : Key{}; }
Key ByStem(const Place& place) { return {StemOf(place.name), place.op}; }
Key ByInnerName(const Place& place) { return {WithoutOutermost(place.name), place.op}; }
Key ByFullName(const Place& place) { return {place.name, place.op}; }
Key BySize(const Place& place) { return {"any", place.op, place.bytes}; }

class Matcher {
 public:
  Matcher(const std::vector<Place>& before, const std::vector<Place>& after)
      : before_(PointersTo(before)), after_(PointersTo(after)) {}

  // Pairs those that have one key on both sides.
  void PairBy(Key (*key_before)(const Place&), Key (*key_after)(const Place&)) {
    std::map<Key, Family> families;
    for (const Place* place : before_) families[key_before(*place)].before.push_back(place);
    for (const Place* place : after_) families[key_after(*place)].after.push_back(place);
    for (auto& [key, family] : families) {
      if (!key.text.empty()) Pair(family);
    }
    std::erase_if(before_, [&](const Place* place) { return paired_.contains(place); });
    std::erase_if(after_, [&](const Place* place) { return paired_.contains(place); });
  }

  std::vector<PlacePair> Pairs(const std::vector<Place>& after) const {
    std::vector<PlacePair> pairs;
    for (const Place& place : after) {
      const auto found = before_of_.find(&place);
      pairs.push_back({found == before_of_.end() ? nullptr : found->second, &place});
    }
    for (const Place* place : before_) pairs.push_back({place, nullptr});
    return pairs;
  }

 private:
  void Pair(Family& family) {
    SortByNumber(family.before);
    SortByNumber(family.after);
    for (const auto& [i, j] : AlignSizes(SizesOf(family.before), SizesOf(family.after))) {
      before_of_[family.after[j]] = family.before[i];
      paired_.insert(family.before[i]);
      paired_.insert(family.after[j]);
    }
  }

  Places before_;  // without a pair yet
  Places after_;
  std::unordered_map<const Place*, const Place*> before_of_;
  std::unordered_set<const Place*> paired_;
};

}  // namespace

std::string_view StemOf(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  const bool is_numbered = last != std::string_view::npos && last + 1 < name.size();
  return is_numbered && last > 0 && name[last] == '_' ? name.substr(0, last) : std::string_view();
}

bool IsSameName(std::string_view before, std::string_view after) {
  const std::string_view stem = StemOf(after);
  return before == after || (!stem.empty() && stem == StemOf(before));
}

std::vector<PlacePair> MatchPlaces(const std::vector<Place>& before,
                                   const std::vector<Place>& after) {
  Matcher matcher(before, after);
  matcher.PairBy(ByName, ByName);
  matcher.PairBy(ByStem, ByStem);
  matcher.PairBy(ByInnerName, ByFullName);  // an outer module has gone
  matcher.PairBy(ByFullName, ByInnerName);  // or has come
  matcher.PairBy(BySize, BySize);
  return matcher.Pairs(after);
}

}  // namespace onnxfit
