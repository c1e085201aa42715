#include "estimator/report/comparison_json.h"

namespace onnxfit {
namespace {

Json SideJson(const Snapshot& snapshot) {
  Json side = {{"model", snapshot.model}};
  PutIfKnown(side, "version", snapshot.version);
  PutIfKnown(side, "digest", snapshot.digest);
  side["exact_bytes"] = snapshot.peak.exact_bytes;
  side["allocated_bytes"] = snapshot.peak.allocated_bytes;
  side["reserved_bytes"] = snapshot.peak.reserved_bytes;
  side["device_bytes"] = snapshot.device_bytes;
  PutIfKnown(side, "phase", snapshot.phase);
  PutIfKnown(side, "node", snapshot.node);
  return side;
}

Json PlacesRow(const ChangedPlaces& places) {
  Json row = {{"name", places.name}};
  PutIfKnown(row, "old_name", places.old_name);
  row["change"] = ToString(places.change);
  row["op"] = places.op;
  row["count"] = places.names.size();
  row["old_bytes"] = places.old_bytes;
  row["new_bytes"] = places.new_bytes;
  row["names"] = places.names;
  return row;
}

Json SettingRow(const ChangedSetting& setting) {
  Json row = {{"name", setting.name}};
  PutIfKnown(row, "old", setting.old_value);
  PutIfKnown(row, "new", setting.new_value);
  return row;
}

}  // namespace

Json ComparisonJson(const Comparison& comparison) {
  Json object = {{"old", SideJson(comparison.before)},
                 {"new", SideJson(comparison.after)},
                 {"increase_bytes", comparison.increase()},
                 {"kinds", Json::array()}};
  for (const ChangedKind& kind : comparison.kinds) {
    object["kinds"].push_back(
        {{"kind", kind.kind}, {"old_bytes", kind.old_bytes}, {"new_bytes", kind.new_bytes}});
  }
  if (comparison.has_places) {
    object["nodes"] = Json::array();
    for (const ChangedPlaces& places : comparison.places) {
      object["nodes"].push_back(PlacesRow(places));
    }
  }
  object["peak_moved"] = comparison.peak_moved;
  object["settings_changed"] = Json::array();
  for (const ChangedSetting& setting : comparison.settings) {
    object["settings_changed"].push_back(SettingRow(setting));
  }
  return object;
}

}  // namespace onnxfit
