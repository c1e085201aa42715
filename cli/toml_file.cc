#include "cli/toml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"

// toml++ 3.3 asserts that a table's header begins with a key before it refuses one that does
// not, "[{"; with NDEBUG it has the compiler assume so.  Without either, it refuses it.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

namespace onnxfit {
namespace {

TomlNode NodeOf(const toml::node& node);

int64_t LineOf(const toml::source_region& source) {
  return std::max<int64_t>(source.begin.line, 1);
}

// toml++ sorts by key.
std::vector<TomlNode> ChildrenOf(const toml::table& table) {
  std::vector<std::pair<toml::source_position, TomlNode>> placed;
  for (const auto& [key, value] : table) {
    TomlNode child = NodeOf(value);
    child.key = key.str();
    child.line = LineOf(key.source());
    placed.emplace_back(key.source().begin, std::move(child));
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TomlNode> children;
  for (auto& [place, child] : placed) children.push_back(std::move(child));
  return children;
}

std::vector<TomlNode> ChildrenOf(const toml::array& array) {
  std::vector<TomlNode> children;
  for (const toml::node& item : array) children.push_back(NodeOf(item));
  return children;
}

// "2.0" stays apart from "2".
std::string TextOf(double number) {
  const std::string text = fmt::format("{}", number);
  const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return is_whole ? text + ".0" : text;
}

template <typename Date>
std::string TextOf(const Date& date) {
  std::ostringstream text;
  text << date;
  return text.str();
}

TomlNode NodeOf(const toml::node& node) {
  const int64_t line = LineOf(node.source());
  if (const toml::table* table = node.as_table()) {
    return {.kind = TomlKind::kTable, .line = line, .children = ChildrenOf(*table)};
  }
  if (const toml::array* array = node.as_array()) {
    return {.kind = TomlKind::kArray, .line = line, .children = ChildrenOf(*array)};
  }
  const auto leaf = [&](TomlKind kind, std::string text) {
    return TomlNode{.kind = kind, .line = line, .text = std::move(text)};
  };
  if (const auto* text = node.as_string()) return leaf(TomlKind::kString, text->get());
  if (const auto* whole = node.as_integer()) {
    return leaf(TomlKind::kInteger, std::to_string(whole->get()));
  }
  if (const auto* number = node.as_floating_point()) {
    return leaf(TomlKind::kFloat, TextOf(number->get()));
  }
  if (const auto* yes = node.as_boolean()) {
    return leaf(TomlKind::kBool, yes->get() ? "true" : "false");
  }
  if (const auto* date = node.as_date()) return leaf(TomlKind::kDate, TextOf(date->get()));
  if (const auto* time = node.as_time()) return leaf(TomlKind::kDate, TextOf(time->get()));
  return leaf(TomlKind::kDate, TextOf(node.as_date_time()->get()));
}

// "parsing value: could not determine value type", without the "Error while" that begins it.
std::string TextOf(const toml::parse_error& error) {
  const std::string_view text = error.description();
  constexpr std::string_view kStart = "Error while ";
  return std::string(text.starts_with(kStart) ? text.substr(kStart.size()) : text);
}

constexpr std::ptrdiff_t kMostDots = 1000;

// Each dot of a key is a table in a table; toml++ 3.3 ends in its own stack at ten thousands.
void RefuseDeepKeys(std::string_view text, const std::string& path) {
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.size(), text.find('\n', begin));
    const std::string_view line = text.substr(begin, end - begin);
    if (std::count(line.begin(), line.end(), '.') > kMostDots) {
      throw Error({.file = path,
                   .where = fmt::format("line {}", number),
                   .text = fmt::format("expected at most {} dots, found more", kMostDots)});
    }
    begin = end + 1;
  }
}

bool IsBare(std::string_view key) {
  constexpr std::string_view kBare =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return !key.empty() && key.find_first_not_of(kBare) == std::string_view::npos;
}

}  // namespace

const TomlNode* TomlNode::Find(std::string_view wanted) const {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const TomlNode& child) { return child.key == wanted; });
  return found == children.end() ? nullptr : &*found;
}

std::string_view ToString(TomlKind kind) {
  constexpr std::string_view kNames[] = {
      "a string", "an integer", "a number", "true or false", "a date or time", "a list", "a table"};
  return kNames[static_cast<size_t>(kind)];
}

std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    const auto byte = static_cast<unsigned char>(c);
    quoted += byte < 0x20 || byte == 0x7f ? fmt::format("\\u{:04X}", byte) : std::string(1, c);
  }
  return quoted + '"';
}

std::string TomlKey(std::string_view key) {
  return IsBare(key) ? std::string(key) : TomlString(key);
}

TomlNode ParseToml(std::string_view text, const std::string& path) {
  RefuseDeepKeys(text, path);
  try {
    return NodeOf(toml::parse(text));
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    throw Error({.file = path,
                 .where = fmt::format("line {}, column {}", at.line, at.column),
                 .text = TextOf(error)});
  }
}

TomlNode ReadTomlFile(const std::string& path) {
  try {
    const FileBytes file(path, [](std::string_view) {}, {.what = "a config file"});
    return ParseToml(file.bytes(), path);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.file = path;
    throw Error(parts);
  }
}

}  // namespace onnxfit
