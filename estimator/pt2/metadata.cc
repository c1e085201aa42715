#include "estimator/pt2/metadata.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Takes what is before the next `separator` from `rest`, which is all of it where there is none.
std::string_view TakeUntil(char separator, std::string_view& rest) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

// The commas of "key,layers.slice(0, 2),type" that are not in brackets part it in three.
std::optional<std::array<std::string_view, 3>> SplitFrame(std::string_view frame) {
  std::array<std::string_view, 3> parts;
  size_t part = 0;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < frame.size(); ++i) {
    const char c = frame[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ',' || depth != 0) continue;
    if (part == 2) return std::nullopt;
    parts[part++] = frame.substr(begin, i - begin);
    begin = i + 1;
  }
  if (part != 2) return std::nullopt;
  parts[2] = frame.substr(begin);
  return parts;
}

// "@1" of "L__self__model.act@1", "" of other keys.
std::string_view CallNumber(std::string_view key) {
  const size_t at = key.rfind('@');
  if (at == key.npos || at + 1 == key.size()) return {};
  const bool is_number = key.find_first_not_of("0123456789", at + 1) == key.npos;
  return is_number ? key.substr(at) : "";
}

std::string_view PathOfCall(std::string_view key, std::string_view path, TextPool& pool) {
  const std::string_view number = CallNumber(key);
  if (number.empty() || path.ends_with(number)) return path;
  const size_t size = path.size() + number.size();
  const std::string_view end = key.substr(key.size() - std::min(size, key.size()));
  if (end.size() == size && end.starts_with(path)) return end;
  return pool.Keep(std::string(path) + std::string(number));
}

std::optional<int64_t> LineNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

constexpr std::string_view kFile = "File \"";
constexpr std::string_view kLine = "\", line ";
constexpr std::string_view kIn = ", in ";

// 'File "net.py", line 11, in forward'.
std::optional<SourceLine> ParseFileLine(std::string_view line) {
  if (!line.starts_with(kFile)) return std::nullopt;
  line.remove_prefix(kFile.size());
  const size_t name_end = line.rfind(kLine);
  if (name_end == line.npos) return std::nullopt;
  const std::string_view rest = line.substr(name_end + kLine.size());
  const size_t number_end = std::min(rest.find(kIn), rest.size());
  const std::optional<int64_t> number = LineNumber(rest.substr(0, number_end));
  if (!number) return std::nullopt;
  SourceLine source = {.file = line.substr(0, name_end), .line = *number};
  if (number_end < rest.size()) source.function = rest.substr(number_end + kIn.size());
  return source;
}

// Python 3.11 and later underline a part of the line above.
bool IsUnderline(std::string_view line) { return line.find_first_not_of("^~ ") == line.npos; }

}  // namespace

std::vector<ModuleFrame> ParseModuleStack(std::string_view text, TextPool& pool) {
  std::vector<ModuleFrame> frames;
  while (!text.empty()) {
    const auto parts = SplitFrame(TakeUntil(';', text));
    if (!parts) continue;
    const auto& [key, path, type] = *parts;
    frames.push_back({.path = PathOfCall(key, path, pool), .type = type});
  }
  return frames;
}

std::vector<SourceLine> ParseStackTrace(std::string_view text) {
  std::vector<SourceLine> lines;
  bool is_text_next = false;
  while (!text.empty()) {
    const std::string_view line = Trim(TakeUntil('\n', text));
    if (const auto source = ParseFileLine(line)) {
      lines.push_back(*source);
      is_text_next = true;
    } else if (is_text_next && !IsUnderline(line)) {
      lines.back().text = line;
      is_text_next = false;
    }
  }
  return lines;
}

}  // namespace onnxfit::pt2
