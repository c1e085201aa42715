// onnxfit.toml: a TOML file as plain values that know where they stand, defaults for all
// commands, and the checks as written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/values.h"

namespace onnxfit {

enum class TomlKind : uint8_t { kString, kInteger, kFloat, kBool, kDate, kArray, kTable };

struct TomlNode {
  TomlKind kind = TomlKind::kTable;
  std::string key = {};                 // of a table's child
  int64_t line = 1;                     // of the key, or of what has none, from 1
  std::string text = {};                // of what holds no others: "fp32", "32", "0.5", "true"
  std::vector<TomlNode> children = {};  // of arrays and tables, in the order of the file

  // The child of that key, or null.
  const TomlNode* Find(std::string_view wanted) const;
  bool is_list() const { return kind == TomlKind::kArray; }
  bool is_table() const { return kind == TomlKind::kTable; }
};

// What messages call it: "a table".
std::string_view ToString(TomlKind kind);

// `text` as TOML writes it: "\"a\\\\b\"".  REQUIRES: UTF-8.
std::string TomlString(std::string_view text);

// `key` as it stands before "=": bare where TOML allows that.
std::string TomlKey(std::string_view key);

// Throws Error, with file, line and column, for a file that cannot be read or is no TOML.
TomlNode ReadTomlFile(const std::string& path);

// The same for text that is there already; `path` is for errors.
TomlNode ParseToml(std::string_view text, const std::string& path);

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
