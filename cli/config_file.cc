#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/check_keys.h"
#include "cli/check_settings.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr std::string_view kTables[] = {"check", "defaults"};

// Keys that people may take from the command line.
struct OtherKey {
  std::string_view typed;
  std::string_view meant;
};
constexpr OtherKey kOtherKeys[] = {
    {"gpu", "budget"}, {"memory", "budget"}, {"dim", "dims"}, {"shape", "shapes"}};

std::string MeantKey(std::string_view typed) {
  for (const OtherKey& row : kOtherKeys) {
    if (row.typed == typed) return fmt::format(" (did you mean '{}'?)", row.meant);
  }
  return DidYouMean(typed, CheckKeys());
}

Error AtLine(const Error& error, const std::string& path, int64_t line) {
  Error::Parts parts = error.parts();
  const std::string place = fmt::format("line {}", line);
  parts.file = path;
  parts.where = parts.where.empty() ? place : place + ": " + parts.where;
  return Error(parts);
}

void RefuseUnknownTables(const TomlNode& file, int64_t& line) {
  for (const TomlNode& table : file.children) {
    line = table.line;
    if (std::find(std::begin(kTables), std::end(kTables), table.key) != std::end(kTables)) continue;
    throw Error({.text = fmt::format("expected [[check]] or [defaults], found {}{}",
                                     Quoted(table.key), DidYouMean(table.key, kTables))});
  }
}

// A model and its name are one check's.
void RefuseOwnKeys(const TomlNode& defaults, int64_t& line) {
  for (const std::string_view key : {"name", "model"}) {
    const TomlNode* node = defaults.Find(key);
    if (node == nullptr) continue;
    line = node->line;
    throw Error(
        {.where = std::string(key), .text = "expected in a [[check]], found in [defaults]"});
  }
}

TomlNode ReadDefaults(const TomlNode& file, int64_t& line) {
  const TomlNode* defaults = file.Find("defaults");
  if (defaults == nullptr) return {};
  line = defaults->line;
  if (!defaults->is_table()) RefuseKind(*defaults, "defaults", "a table");
  RefuseUnknownKeys(*defaults, line);
  RefuseOwnKeys(*defaults, line);
  const auto load_none = [](const std::string&) { return std::vector<SharedCalibration>(); };
  ReadCheckSettings(*defaults, load_none, line);
  return *defaults;
}

std::vector<TomlNode> ReadChecks(const TomlNode& file, int64_t& line) {
  const TomlNode* checks = file.Find("check");
  if (checks == nullptr) return {};
  line = checks->line;
  if (!checks->is_list()) RefuseKind(*checks, "check", "[[check]], a list of tables");
  for (const TomlNode& check : checks->children) {
    line = check.line;
    if (!check.is_table()) RefuseKind(check, "check", "a table");
  }
  return checks->children;
}

}  // namespace

void RefuseUnknownKeys(const TomlNode& table, int64_t& line) {
  const std::vector<std::string_view> keys = CheckKeys();
  for (const TomlNode& node : table.children) {
    line = node.line;
    if (std::find(keys.begin(), keys.end(), node.key) != keys.end()) continue;
    const std::string meant = MeantKey(node.key);
    throw Error({.text = fmt::format("unknown key {}{}", Quoted(node.key), meant),
                 .hint = meant.empty() ? "onnxfit --help" : ""});
  }
}

ConfigFile ReadConfigFile(const std::string& path) {
  const TomlNode file = ReadTomlFile(path);
  int64_t line = 1;
  try {
    RefuseUnknownTables(file, line);
    return {.path = path, .defaults = ReadDefaults(file, line), .checks = ReadChecks(file, line)};
  } catch (const Error& error) {
    throw AtLine(error, path, line);
  }
}

std::vector<Typed> DefaultsOf(const ConfigFile& config, const Flag& flag) {
  const TomlNode* node = flag.group == kRunGroup ? config.defaults.Find(KeyOf(flag)) : nullptr;
  if (node == nullptr) return {};
  const std::string place = fmt::format("{}: line {}: {}", config.path, node->line, node->key);
  return ValuesOf(flag, *node, place);
}

}  // namespace onnxfit
