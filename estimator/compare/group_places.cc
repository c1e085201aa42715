#include "estimator/compare/group_places.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "estimator/base/numbered_names.h"

namespace onnxfit {
namespace {

constexpr size_t kFew = 3;  // of which none stands for the others

std::optional<PlaceChange> ChangeOf(const PlacePair& pair) {
  if (pair.before == nullptr) return PlaceChange::kAdded;
  if (pair.after == nullptr) return PlaceChange::kRemoved;
  if (pair.after->bytes > pair.before->bytes) return PlaceChange::kGrew;
  if (pair.after->bytes < pair.before->bytes) return PlaceChange::kShrank;
  if (!IsSameName(pair.before->name, pair.after->name)) return PlaceChange::kRenamed;
  return std::nullopt;
}

using GroupKey = std::tuple<PlaceChange, std::string, std::string, std::string>;

struct Group {
  ChangedPlaces places;
  std::vector<std::string> old_names;  // of those that had another
  int64_t most_bytes = 0;              // by which one of them changed
  std::string most_name;
};

void Add(const PlacePair& pair, PlaceChange change, Group& group) {
  const Place& shown = pair.after != nullptr ? *pair.after : *pair.before;
  group.places.change = change;
  group.places.op = shown.op;
  group.places.names.push_back(shown.name);
  group.places.old_bytes += pair.before != nullptr ? pair.before->bytes : 0;
  group.places.new_bytes += pair.after != nullptr ? pair.after->bytes : 0;
  if (pair.before != nullptr && pair.before->name != shown.name) {
    group.old_names.push_back(pair.before->name);
  }
  const int64_t bytes = std::abs((pair.after != nullptr ? pair.after->bytes : 0) -
                                 (pair.before != nullptr ? pair.before->bytes : 0));
  if (bytes <= group.most_bytes) return;
  group.most_bytes = bytes;
  group.most_name = shown.name;
}

GroupKey KeyOf(const PlacePair& pair, PlaceChange change) {
  const Place& shown = pair.after != nullptr ? *pair.after : *pair.before;
  const bool is_renamed = pair.before != nullptr && pair.before->name != shown.name;
  return {change, NumberPattern(shown.name), is_renamed ? NumberPattern(pair.before->name) : "",
          shown.op};
}

ChangedPlaces Finished(Group group) {
  group.places.name = CommonName(group.places.names);
  if (!group.old_names.empty()) group.places.old_name = CommonName(group.old_names);
  const bool is_alone = group.most_bytes > std::abs(group.places.increase()) / 2;
  if (group.places.names.size() > kFew && is_alone) group.places.most_name = group.most_name;
  return std::move(group.places);
}

void Sort(std::vector<ChangedPlaces>& changes, int64_t increase) {
  const int64_t sign = increase < 0 ? 1 : -1;
  const auto rank = [&](const ChangedPlaces& p) {
    return std::tuple(p.change == PlaceChange::kRenamed, sign * p.increase(),
                      std::string_view(p.name));
  };
  std::stable_sort(changes.begin(), changes.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

}  // namespace

std::vector<ChangedPlaces> GroupChanges(const std::vector<PlacePair>& pairs, int64_t increase) {
  std::map<GroupKey, Group> groups;
  for (const PlacePair& pair : pairs) {
    const std::optional<PlaceChange> change = ChangeOf(pair);
    if (change) Add(pair, *change, groups[KeyOf(pair, *change)]);
  }
  std::vector<ChangedPlaces> changes;
  for (auto& [key, group] : groups) changes.push_back(Finished(std::move(group)));
  Sort(changes, increase);
  return changes;
}

}  // namespace onnxfit
