// What is asked of cli/onnx_sessions.py, and what it tells.
#include <fmt/format.h>

#include "estimator/base/device_pages.h"
#include "estimator/base/error.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {
namespace {

constexpr int kSessions = 2;      // at most, each with an order of its own
constexpr double kSeconds = 2.5;  // no session is begun behind it

RuntimeSession SessionOf(const Json& json) {
  RuntimeSession session = {.used_bytes = json.at("used")};
  std::vector<int64_t> regions;
  int64_t arena = 0;
  for (const Json& extensions : json.at("extensions")) {
    for (const Json& bytes : extensions) arena += regions.emplace_back(bytes);
    session.arena_bytes.push_back(arena);
  }
  session.page_bytes = PageBytesOf(regions);
  session.reserved_bytes = json.value("reserved", int64_t{0});
  session.error = json.value("error", "");
  return session;
}

}  // namespace

Json InputsJson(const std::vector<RuntimeInput>& inputs) {
  Json json = Json::array();
  for (const RuntimeInput& input : inputs) {
    json.push_back({{"name", input.name},
                    {"dims", input.type.dims},
                    {"type", static_cast<int>(input.type.dtype)}});
  }
  return json;
}

std::string ToJson(const AskedSessions& asked) {
  Json shapes = Json::array();
  for (const std::vector<RuntimeInput>& inputs : asked.shapes) shapes.push_back(InputsJson(inputs));
  return Dumped({{"model", asked.model},
                 {"shapes", shapes},
                 {"session", asked.session},
                 {"provider_options", asked.provider},
                 {"bound", asked.is_bound},
                 {"runs", kRunsOfShape},
                 {"sessions", kSessions},
                 {"seconds", kSeconds},
                 {"log", asked.log}});
}

ToldSessions ReadSessions(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    ToldSessions told = {.version = json.value("version", ""),
                         .missing = json.value("missing", ""),
                         .context_bytes = json.value("context", int64_t{0})};
    told.untraced = json.value("untraced", "");
    for (const Json& session : json.value("sessions", Json::array())) {
      told.sessions.push_back(SessionOf(session));
    }
    if (!json.contains("requests")) return told;
    json.at("requests").at("weights").get_to(told.weights);
    json.at("requests").at("runs").get_to(told.runs);
    return told;
  } catch (const nlohmann::json::exception& error) {
    throw Error({.where = "onnx_sessions.py",
                 .text = fmt::format("expected what its sessions took, found {}", error.what())});
  }
}

}  // namespace onnxfit
