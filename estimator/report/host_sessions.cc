// What is asked of cli/host_sessions.py, and what it tells.
#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/report/host_run.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

constexpr int kHostSessions = 3;      // at most: two of them differ by some MiB
constexpr double kHostSeconds = 5.0;  // no session is begun behind it, and a longer one is the only

struct HostSettingRow {
  std::string_view name;
  std::string_view value;
};
// What changed a session's memory most of all that were tried (1.31.1).
constexpr HostSettingRow kHostSettings[] = {
    {"enable_mem_pattern", "0"},
    {"enable_cpu_mem_arena", "0"},
    {"session.disable_prepacking", "1"},
};

HostSession HostSessionOf(const Json& json) {
  HostSession session = {.unread_bytes = json.value("unread", int64_t{0}),
                         .error = json.value("error", "")};
  for (const Json& phase : json.at("phases")) {
    session.phases.push_back({phase.at(0), phase.at(1), phase.at(2)});
  }
  return session;
}

// By the flag that says each; none where somebody set one.
Json JsonOfSettings(const AskedHostSessions& asked) {
  Json json = Json::object();
  if (asked.is_for_search || !asked.session.empty()) return json;
  for (const HostSettingRow& row : kHostSettings) {
    json[fmt::format("--session {}={}", row.name, row.value)] = {{row.name, row.value}};
  }
  return json;
}

}  // namespace

std::string ToJson(const AskedHostSessions& asked) {
  Json shapes = Json::array();
  for (const std::vector<RuntimeInput>& inputs : asked.shapes) shapes.push_back(InputsJson(inputs));
  return Dumped({{"model", asked.model},
                 {"shapes", shapes},
                 {"weights", asked.weights},
                 {"session", asked.session},
                 {"settings", JsonOfSettings(asked)},
                 {"runs", kRunsOfShape},
                 {"sessions", asked.is_for_search ? 1 : kHostSessions},
                 {"seconds", kHostSeconds}});
}

ToldHostSessions ReadHostSessions(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    const Json& first = json.at("sessions").at(0);
    ToldHostSessions told = {.version = first.value("version", ""),
                             .missing = first.value("missing", "")};
    for (const Json& session : json.at("sessions")) {
      told.sessions.push_back(HostSessionOf(session));
      told.machine_bytes = std::max(told.machine_bytes, session.value("machine", int64_t{0}));
    }
    for (const Json& setting : json.at("settings")) {
      told.settings.push_back({setting.at("flag"), HostSessionOf(setting)});
    }
    return told;
  } catch (const nlohmann::json::exception& error) {
    throw Error({.where = "host_sessions.py",
                 .text = fmt::format("expected what its sessions took, found {}", error.what())});
  }
}

}  // namespace onnxfit
