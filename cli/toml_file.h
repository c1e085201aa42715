// A TOML file as plain values that know where they stand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace onnxfit
