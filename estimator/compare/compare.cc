#include "estimator/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/compare/group_places.h"
#include "estimator/compare/match_places.h"

namespace onnxfit {
namespace {

// The rows of `before` and `after` by name, in the order of `after`, what only `before` has last.
// `get` reads a row's value, `add` takes a name and both values, one of which may be `absent`.
template <typename Row, typename Name, typename Get, typename Value, typename AddRow>
void JoinByName(const std::vector<Row>& before, const std::vector<Row>& after, const Name& name_of,
                const Get& get, const Value& absent, const AddRow& add) {
  const auto find = [&](const std::vector<Row>& rows, const std::string& name) {
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const Row& row) { return name_of(row) == name; });
    return found == rows.end() ? absent : get(*found);
  };
  for (const Row& row : after) add(name_of(row), find(before, name_of(row)), get(row));
  for (const Row& row : before) {
    const bool is_shared = std::any_of(after.begin(), after.end(),
                                       [&](const Row& r) { return name_of(r) == name_of(row); });
    if (!is_shared) add(name_of(row), get(row), absent);
  }
}

std::vector<ChangedKind> CompareKinds(const std::vector<KindBytes>& before,
                                      const std::vector<KindBytes>& after) {
  std::vector<ChangedKind> kinds;
  JoinByName(
      before, after, [](const KindBytes& row) { return row.kind; },
      [](const KindBytes& row) { return row.bytes; }, int64_t{0},
      [&](const std::string& kind, int64_t old_bytes, int64_t new_bytes) {
        kinds.push_back({kind, old_bytes, new_bytes});
      });
  return kinds;
}

using Setting = std::pair<std::string, std::string>;

std::vector<ChangedSetting> CompareSettings(const std::vector<Setting>& before,
                                            const std::vector<Setting>& after) {
  std::vector<ChangedSetting> changed;
  JoinByName(
      before, after, [](const Setting& row) { return row.first; },
      [](const Setting& row) { return row.second; }, std::string(),
      [&](const std::string& name, const std::string& old_value, const std::string& new_value) {
        if (old_value != new_value) changed.push_back({name, old_value, new_value});
      });
  return changed;
}

Snapshot WithoutPlaces(Snapshot snapshot) {
  snapshot.places.clear();
  return snapshot;
}

}  // namespace

int64_t Allowance::BytesOf(int64_t old_bytes) const {
  return std::max(bytes, static_cast<int64_t>(std::floor(static_cast<double>(old_bytes) * share)));
}

std::string_view ToString(PlaceChange change) {
  constexpr std::string_view kWords[] = {"grew", "shrank", "added", "removed", "renamed"};
  return kWords[static_cast<size_t>(change)];
}

Comparison Compare(const Snapshot& before, const Snapshot& after) {
  Comparison comparison;
  comparison.before = WithoutPlaces(before);
  comparison.after = WithoutPlaces(after);
  comparison.kinds = CompareKinds(before.kinds, after.kinds);
  comparison.settings = CompareSettings(before.settings, after.settings);
  comparison.peak_moved = before.phase != after.phase || !IsSameName(before.node, after.node);
  comparison.has_places = !before.places.empty() && !after.places.empty();
  if (comparison.has_places) {
    comparison.places =
        GroupChanges(MatchPlaces(before.places, after.places), comparison.increase());
  }
  return comparison;
}

}  // namespace onnxfit
