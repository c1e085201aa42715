#include "estimator/report/snapshot_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/text.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

constexpr int64_t kLockSchema = 1;

std::string FlagValue(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "--alloc-conf" of "alloc_conf".
std::string FlagName(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

// What rows show is part of a whole: a lock whose merge went wrong may say otherwise.
template <typename Row>
void CheckSum(const std::vector<Row>& rows, int64_t whole, std::string_view name) {
  int64_t sum = 0;
  for (const Row& row : rows) sum = CheckedAdd(sum, row.bytes);
  if (sum <= whole) return;
  throw Error({.where = fmt::format("\"{}\"", name),
               .text = fmt::format("expected rows of {} at most, as its peak, found {}",
                                   FormatBytes(whole), FormatBytes(sum))});
}

// Of an estimate's report, or of a check in a lock, which has the same fields.
Snapshot ReadSnapshot(const Json& report) {
  const Json& model = ReadObject(report, "model");
  const Json& peak = ReadObject(report, "peak");
  Snapshot snapshot = {.version = ReadTextIfKnown(report, "version"),
                       .model = ReadText(model, "path"),
                       .digest = ReadTextIfKnown(model, "digest"),
                       .peak = {.exact_bytes = ReadBytes(peak, "exact_bytes"),
                                .allocated_bytes = ReadBytes(peak, "allocated_bytes"),
                                .reserved_bytes = ReadBytes(peak, "reserved_bytes")},
                       .device_bytes = ReadBytes(peak, "device_bytes"),
                       .phase = ReadTextIfKnown(peak, "phase"),
                       .node = ReadTextIfKnown(peak, "node")};
  for (const auto& [name, value] : ReadObject(report, "settings").items()) {
    if (!value.is_structured() || !value.empty()) {
      snapshot.settings.emplace_back(name, FlagValue(value));
    }
  }
  for (const Json& row : ReadArray(report, "breakdown")) {
    snapshot.kinds.push_back({ReadText(row, "kind"), ReadBytes(row, "bytes")});
  }
  if (report.contains("places")) snapshot.places = ReadPlaces(ReadArray(report, "places"));
  CheckSum(snapshot.kinds, snapshot.device_bytes, "breakdown");
  CheckSum(snapshot.places, snapshot.peak.exact_bytes, "places");
  return snapshot;
}

// Of the graph and of the settings, in one.
std::string DigestOf(const Snapshot& snapshot) {
  std::string text = snapshot.digest;
  for (const auto& [name, value] : snapshot.settings) text += fmt::format("\n{}={}", name, value);
  return Digest(text);
}

Json PeakJson(const Snapshot& snapshot) {
  Json peak = {{"exact_bytes", snapshot.peak.exact_bytes},
               {"allocated_bytes", snapshot.peak.allocated_bytes},
               {"reserved_bytes", snapshot.peak.reserved_bytes},
               {"device_bytes", snapshot.device_bytes}};
  PutIfKnown(peak, "phase", snapshot.phase);
  PutIfKnown(peak, "node", snapshot.node);
  return peak;
}

Json LockedJson(const Snapshot& snapshot) {
  Json check = {{"digest", DigestOf(snapshot)}, {"model", {{"path", snapshot.model}}},
                {"settings", Json::object()},   {"peak", PeakJson(snapshot)},
                {"breakdown", Json::array()},   {"places", PlacesJson(snapshot.places)}};
  PutIfKnown(check["model"], "digest", snapshot.digest);
  for (const auto& [name, value] : snapshot.settings) check["settings"][name] = value;
  for (const KindBytes& row : snapshot.kinds) {
    check["breakdown"].push_back({{"kind", row.kind}, {"bytes", row.bytes}});
  }
  return check;
}

[[noreturn]] void RefuseLock(const Error& error, const std::string& check) {
  Error::Parts parts = error.parts();
  if (!check.empty()) parts.where = fmt::format("check '{}': {}", check, parts.where);
  throw Error(parts);
}

Lock ReadChecks(const Json& json) {
  Lock lock = {.version = ReadText(json, "version")};
  for (const auto& [name, check] : ReadObject(json, "checks").items()) {
    try {
      lock.checks[name] = ReadSnapshot(check);
      lock.checks[name].version = lock.version;
    } catch (const Error& error) {
      RefuseLock(error, name);
    }
  }
  return lock;
}

}  // namespace

Snapshot SnapshotOf(const Estimate& estimate, const std::string& version) {
  // By way of text, in which bad letters become others.
  return ReadSnapshot(ParseJson(Dumped(EstimateJson(estimate, {.version = version, .rows = 0}))));
}

std::vector<std::pair<std::string, std::string>> FlagsOf(const Snapshot& report) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const auto& [name, value] : report.settings) {
    const Json json = Json::parse(value, nullptr, /*allow_exceptions=*/false);
    if (name == "dims" && json.is_object()) {
      for (const auto& [dim, size] : json.items()) {
        flags.emplace_back("--dim", fmt::format("{}={}", dim, FlagValue(size)));
      }
    } else if (name == "dropout_at" && json.is_array()) {
      for (const Json& at : json) {
        flags.emplace_back("--dropout", fmt::format("{}={}", FlagValue(ReadField(at, "glob")),
                                                    FlagValue(ReadField(at, "p"))));
      }
    } else if (name == "assume" && json.is_array()) {
      for (const Json& what : json) {
        const std::string text = FlagValue(what);
        flags.emplace_back("--assume", text.find('=') == std::string::npos ? text + "=yes" : text);
      }
    } else if (json.is_array()) {
      for (const Json& item : json) flags.emplace_back(FlagName(name), FlagValue(item));
    } else if (!json.is_object()) {
      flags.emplace_back(FlagName(name), value);
    }
  }
  return flags;
}

std::vector<Snapshot> ReadReports(std::string_view text) {
  const Json json = ParseJson(text);
  std::vector<Snapshot> snapshots;
  if (!json.is_array()) return {ReadSnapshot(json)};
  for (const Json& report : json) {
    if (!report.contains("error")) snapshots.push_back(ReadSnapshot(report));
  }
  return snapshots;
}

std::string ToJson(const Lock& lock) {
  Json json = {{"lock", kLockSchema}, {"version", lock.version}, {"checks", Json::object()}};
  for (const auto& [name, snapshot] : lock.checks) json["checks"][name] = LockedJson(snapshot);
  return InLines(json) + "\n";
}

bool IsLock(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("lock");
}

Lock ReadLock(std::string_view text) {
  try {
    const Json json = ParseJson(text);
    if (ReadBytes(json, "lock") != kLockSchema) {
      throw Error(
          {.where = "\"lock\"",
           .text = fmt::format("expected {}, found the lock of another onnxfit", kLockSchema)});
    }
    return ReadChecks(json);
  } catch (const Error& error) {
    RefuseLock(error, "");
  }
}

}  // namespace onnxfit
