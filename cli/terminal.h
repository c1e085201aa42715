// What the environment says of the terminal: its letters and its colours.
#pragma once

namespace onnxfit {

// Variables by name; null where one is not set.
struct Variables {
  const char* (*get)(const char* name);
};

// Whether the locale's letters are UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set
// and not empty; without any the locale is C, which is ASCII (POSIX, "Internationalization
// Variables").
bool ShowsUtf8(const Variables& environment);

// Whether colours are wanted: not with NO_COLOR (no-color.org), else with FORCE_COLOR
// (force-color.org; 0 is no) or CLICOLOR_FORCE (bixense.com/clicolors; 0 says nothing), else on a
// terminal that has them, without CLICOLOR=0.
bool WantsColor(const Variables& environment, bool is_terminal);

}  // namespace onnxfit
