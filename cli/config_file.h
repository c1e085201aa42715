// onnxfit.toml: defaults for all commands, and the checks.
#pragma once

#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/toml_file.h"
#include "cli/values.h"

namespace onnxfit {

inline constexpr const char* kConfigName = "onnxfit.toml";

struct ConfigFile {
  std::string path;
  TomlNode defaults;             // of [defaults], empty without one
  std::vector<TomlNode> checks;  // of each [[check]], as written
};

// Throws Error, with file and line, for what is about all of the file: broken TOML, unknown
// tables, anything wrong in [defaults].  What stands in a [[check]] is not looked at.
ConfigFile ReadConfigFile(const std::string& path);

// What [defaults] says of `flag`, nothing for flags that are not of "The run".
std::vector<Typed> DefaultsOf(const ConfigFile& config, const Flag& flag);

// Throws Error, whose line `line` then is, for the first key of a check or of [defaults] that
// does not exist.
void RefuseUnknownKeys(const TomlNode& table, int64_t& line);

}  // namespace onnxfit
