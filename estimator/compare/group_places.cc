#include "estimator/compare/group_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace onnxfit {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMostNamed = 3;  // whose numbers are all written

// A name as text and number in turn, text first: "layer", "1", ".", "0", ".conv".
std::vector<std::string_view> PartsOf(std::string_view name) {
  std::vector<std::string_view> parts;
  while (!name.empty()) {
    const bool is_number = parts.size() % 2 == 1;
    const size_t end = std::min(
        name.size(), is_number ? name.find_first_not_of(kDigits) : name.find_first_of(kDigits));
    parts.push_back(name.substr(0, end));
    name.remove_prefix(end);
  }
  return parts;
}

// The same for all names that differ in numbers alone.
std::string PatternOf(std::string_view name) {
  std::string pattern;
  const std::vector<std::string_view> parts = PartsOf(name);
  for (size_t i = 0; i < parts.size(); ++i) {
    pattern += i % 2 == 1 ? std::string_view("0") : parts[i];
  }
  return pattern;
}

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
  return {change, PatternOf(shown.name), is_renamed ? PatternOf(pair.before->name) : "", shown.op};
}

ChangedPlaces Finished(Group group) {
  group.places.name = CommonName(group.places.names);
  if (!group.old_names.empty()) group.places.old_name = CommonName(group.old_names);
  const bool is_alone = group.most_bytes > std::abs(group.places.increase()) / 2;
  if (group.places.names.size() > kMostNamed && is_alone) group.places.most_name = group.most_name;
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

std::string CommonName(std::span<const std::string> names) {
  const std::vector<std::string_view> first = PartsOf(names[0]);
  std::vector<std::string> common(first.begin(), first.end());
  std::string few;  // the numbers at the last place where names differ
  std::vector<size_t> places;
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<std::string_view> numbers;
    for (const std::string& name : names) numbers.push_back(PartsOf(name)[i]);
    if (std::count(numbers.begin(), numbers.end(), first[i]) == std::ssize(numbers)) continue;
    places.push_back(i);
    few = fmt::format("{{{}}}", fmt::join(numbers, ","));
  }
  const bool are_few = places.size() == 1 && names.size() <= kMostNamed;
  for (const size_t place : places) common[place] = are_few ? few : "*";
  return fmt::format("{}", fmt::join(common, ""));
}

}  // namespace onnxfit
