#include "estimator/report/json_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace onnxfit {

void PutIfKnown(Json& object, const char* key, std::string_view text) {
  if (!text.empty()) object[key] = text;
}

Json InstantJson(const Instant& instant) {
  Json object = {{"step", instant.step}, {"phase", ToString(instant.phase)}};
  PutIfKnown(object, "node", instant.node);
  return object;
}

Json WarningsJson(const Warnings& warnings) {
  Json rows = Json::array();
  for (const Warning& warning : warnings) {
    rows.push_back({{"code", warning.code}, {"text", warning.text}});
  }
  return rows;
}

Json FrameworkJson(const TrainingSettings& settings) {
  const FrameworkChoice& choice = settings.framework_choice;
  Json json = {{"name", settings.framework.name}};
  PutIfKnown(json, "basis", ToString(choice.basis));
  PutIfKnown(json, "written_by", choice.written_by);
  return json;
}

std::string Dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Json FailureJson(const Failure& failure) {
  Json object = {{"step", failure.step}, {"phase", ToString(failure.phase)}};
  PutIfKnown(object, "node", failure.node);
  object["asked_bytes"] = failure.asked_bytes;
  object["tried_bytes"] = failure.tried_bytes;
  if (failure.short_bytes > 0) object["short_bytes"] = failure.short_bytes;
  return object;
}

Json SharesJson(const std::vector<Share>& shares) {
  Json rows = Json::array();
  for (const Share& share : shares) {
    rows.push_back({{"what", share.what},
                    {"bytes", share.bytes},
                    {"low", share.low},
                    {"high", share.high},
                    {"basis", ToString(share.basis)}});
  }
  return rows;
}

Json TargetJson(const JudgedTarget& judged) {
  const Judgement& judgement = judged.judgement;
  Json object = {{"gpu", judged.target.name},
                 {"capacity_bytes", judgement.usable_bytes},
                 {"used_bytes", judgement.used_bytes},
                 {"low", judgement.low_bytes},
                 {"high", judgement.high_bytes},
                 {"verdict", ToString(judgement.verdict)},
                 {"share", std::round(judgement.share() * 1e4) / 1e4},
                 {"retries", judgement.retries}};
  if (!judgement.reasons.empty()) object["reasons"] = judgement.reasons;
  if (judgement.guessed) {
    object["reading"] = judgement.reading;
    object["guessed"] = {{"verdict", ToString(judgement.guessed->verdict)},
                         {"used_bytes", judgement.guessed->used_bytes}};
  }
  if (judgement.fails_at) object["fails_at"] = FailureJson(*judgement.fails_at);
  if (judgement.processes) object["processes"] = *judgement.processes;
  if (judgement.copies) object["copies"] = *judgement.copies;
  if (!judged.advice.empty()) object["advice"] = AdviceJson(judged.advice);
  if (!judged.target.shares.empty()) object["shares"] = SharesJson(judged.target.shares);
  return object;
}

Json AdviceJson(const std::vector<Advice>& advice) {
  Json rows = Json::array();
  for (const Advice& a : advice) {
    Json row = {{"change", a.change}};
    PutIfKnown(row, "flags", a.flags);
    row["effect"] = ToString(a.effect);
    if (a.max_batch) row["max_batch"] = *a.max_batch;
    if (a.accumulate > 1) row["accumulate"] = a.accumulate;
    if (a.judgement) row["verdict"] = ToString(a.judgement->verdict);
    if (a.judgement) row["used_bytes"] = a.judgement->used_bytes;
    if (a.saved_bytes > 0) row["saved_bytes"] = a.saved_bytes;
    PutIfKnown(row, "cost", a.cost);
    row["cost_class"] = ToString(a.cost_class);
    if (a.slower_percent != 0) row["slower_percent"] = a.slower_percent;
    PutIfKnown(row, "source", a.source);
    PutIfKnown(row, "why", a.why);
    rows.push_back(std::move(row));
  }
  return rows;
}

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

// What follows lays JSON out for people who compare it line by line.
namespace {

bool IsFlat(const Json& json) {
  for (const Json& item : json) {
    if (item.is_structured()) return false;
  }
  return true;
}

bool IsOneLine(const Json& json) {
  for (const Json& item : json) {
    const bool is_list = item.is_array() && !item.empty() && IsFlat(item);
    if (item.is_structured() && !is_list) return false;
  }
  return true;
}

void Write(const Json& json, const std::string& indent, std::string& text) {
  if (!json.is_structured() || IsOneLine(json)) {
    text += json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  const bool is_object = json.is_object();
  const std::string inner = indent + "  ";
  text += is_object ? '{' : '[';
  bool is_first = true;
  for (const auto& item : json.items()) {
    text += fmt::format("{}\n{}", std::exchange(is_first, false) ? "" : ",", inner);
    if (is_object) text += Dumped(item.key()) + ": ";
    Write(item.value(), inner, text);
  }
  text += fmt::format("\n{}{}", indent, is_object ? '}' : ']');
}

}  // namespace

std::string InLines(const Json& json) {
  std::string text;
  Write(json, "", text);
  return text;
}

}  // namespace onnxfit
