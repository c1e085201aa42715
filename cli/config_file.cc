#include "cli/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "cli/config_keys.h"
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

bool BeginsText(char c) { return c == '#' || c == '"' || c == '\''; }

// Where the string that begins at `begin`, or the comment, has ended.
size_t EndOfText(std::string_view text, size_t begin) {
  if (text[begin] == '#') return std::min(text.size(), text.find('\n', begin));
  const std::string_view one = text.substr(begin, 1);
  const bool is_long = text.substr(begin, 3) == std::string(3, text[begin]);
  const std::string quote(is_long ? 3 : 1, text[begin]);
  for (size_t i = begin + quote.size(); i < text.size(); ++i) {
    if (text.substr(i).starts_with(quote)) return i + quote.size();
    if (text[i] == '\n' && !is_long) return i;
    if (text[i] == '\\' && one == "\"") ++i;
  }
  return text.size();
}

// Beside strings and comments TOML has ASCII alone; what toml++ 3.3 does with other letters there
// is undefined (is_non_ascii_horizontal_whitespace).
void RefuseOddLetters(std::string_view text, const std::string& path) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // that a file may begin with
  for (size_t i = text.starts_with(kMark) ? kMark.size() : 0; i < text.size(); ++i) {
    while (i < text.size() && BeginsText(text[i])) i = EndOfText(text, i);
    const unsigned char letter = i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
    if (letter < 0xC2 || letter > 0xF4) continue;  // of none that UTF-8 has beyond ASCII
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(i);
    throw Error({.file = path,
                 .where = fmt::format("line {}", std::count(text.begin(), at, '\n') + 1),
                 .text = "expected ASCII, or quotes around it, found another letter"});
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
  RefuseOddLetters(text, path);
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

// What follows reads onnxfit.toml.
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

// A model, its name and what its forward takes are one check's.
void RefuseOwnKeys(const TomlNode& defaults, int64_t& line) {
  for (const std::string_view key : {"name", "model", "input"}) {
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
  const TomlNode* node = IsOfRun(flag) ? config.defaults.Find(KeyOf(flag)) : nullptr;
  if (node == nullptr) return {};
  const std::string place = fmt::format("{}: line {}: {}", config.path, node->line, node->key);
  return ValuesOf(flag, *node, place);
}

}  // namespace onnxfit
