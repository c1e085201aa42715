#include "cli/terminal.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace onnxfit {
namespace {

// "" where it is not set.
std::string_view VariableOf(const Variables& environment, const char* name) {
  const char* text = environment.get(name);
  return text == nullptr ? "" : text;
}

// "en_US" of "en_US.UTF-8@euro" has none; the whole of "UTF-8", as macOS sets it.
std::string_view CharsetOf(std::string_view locale) {
  const size_t dot = locale.find('.');
  if (dot != std::string_view::npos) locale.remove_prefix(dot + 1);
  return locale.substr(0, locale.find('@'));
}

bool NamesUtf8(std::string_view charset) {
  std::string letters;
  for (const char c : charset) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter)) letters += static_cast<char>(std::tolower(letter));
  }
  return letters == "utf8";
}

bool IsOff(std::string_view value) { return value == "0" || value == "false"; }

}  // namespace

bool ShowsUtf8(const Variables& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = VariableOf(environment, name);
    if (!locale.empty()) return NamesUtf8(CharsetOf(locale));
  }
  return false;
}

bool WantsColor(const Variables& environment, bool is_terminal) {
  if (!VariableOf(environment, "NO_COLOR").empty()) return false;
  const std::string_view forced = VariableOf(environment, "FORCE_COLOR");
  if (!forced.empty()) return !IsOff(forced);
  const std::string_view clicolor_forced = VariableOf(environment, "CLICOLOR_FORCE");
  if (!clicolor_forced.empty() && !IsOff(clicolor_forced)) return true;
  const std::string_view terminal = VariableOf(environment, "TERM");
  const bool has_colors = !terminal.empty() && terminal != "dumb";
  return is_terminal && has_colors && VariableOf(environment, "CLICOLOR") != "0";
}

}  // namespace onnxfit
