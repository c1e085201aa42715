#include <doctest/doctest.h>

#include <map>
#include <string>

#include "cli/output.h"

namespace onnxfit::terminal_test {
namespace {

using Values = std::map<std::string, std::string>;

Values current;  // what Get reads: a plain function can hold no state

const char* Get(const char* name) {
  const auto found = current.find(name);
  return found == current.end() ? nullptr : found->second.c_str();
}

bool Utf8(const Values& variables) {
  current = variables;
  return ShowsUtf8({Get});
}

bool Color(const Values& variables, bool is_terminal) {
  current = variables;
  return WantsColor({Get}, is_terminal);
}

}  // namespace

TEST_CASE("letters are the locale's: LC_ALL before LC_CTYPE before LANG") {
  CHECK(Utf8({{"LANG", "en_US.UTF-8"}}));
  CHECK(Utf8({{"LANG", "C.utf8"}}));
  CHECK(Utf8({{"LC_CTYPE", "UTF-8"}}));
  CHECK(Utf8({{"LANG", "de_DE.UTF-8@euro"}}));
  CHECK(!Utf8({}));
  CHECK(!Utf8({{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}));
  CHECK(!Utf8({{"LC_ALL", "POSIX"}}));
  CHECK(!Utf8({{"LC_CTYPE", "C"}, {"LANG", "en_US.UTF-8"}}));
  CHECK(Utf8({{"LC_ALL", ""}, {"LC_CTYPE", "C.UTF-8"}, {"LANG", "C"}}));
  CHECK(Utf8({{"LC_ALL", "C.UTF-8"}, {"LC_CTYPE", "C"}}));
  CHECK(!Utf8({{"LANG", "de_DE.ISO-8859-1"}}));
  CHECK(!Utf8({{"LANG", "de_DE"}}));
}

TEST_CASE("colours are for terminals, unless somebody says") {
  const Values xterm = {{"TERM", "xterm-256color"}};
  const auto with = [&](const std::string& name, const std::string& value) {
    Values variables = xterm;
    variables[name] = value;
    return variables;
  };
  CHECK(Color(xterm, true));
  CHECK(!Color(xterm, false));
  CHECK(!Color({}, true));
  CHECK(!Color(with("TERM", "dumb"), true));
  CHECK(!Color(with("NO_COLOR", "1"), true));
  CHECK(Color(with("NO_COLOR", ""), true));
  CHECK(!Color(with("CLICOLOR", "0"), true));
  CHECK(Color(with("FORCE_COLOR", "1"), false));
  CHECK(Color({{"FORCE_COLOR", "3"}}, false));
  CHECK(!Color(with("FORCE_COLOR", "0"), true));
  CHECK(!Color(with("FORCE_COLOR", ""), false));
  CHECK(Color(with("CLICOLOR_FORCE", "1"), false));
  CHECK(!Color(with("CLICOLOR_FORCE", "0"), false));
  CHECK(!Color({{"FORCE_COLOR", "1"}, {"NO_COLOR", "1"}}, true));
}

}  // namespace onnxfit::terminal_test
