// Where an answer goes: standard output, as the terminal shows it, or a file.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace onnxfit {

// Says before the work is done what would keep its answer from being written.  `input` is what
// the answer is about ("the model"), at `input_path`.  Throws Error.
void CheckOutput(const Options& options, const std::string& input_path, const char* input);

// Throws Error where `what` ("a model"), which is not for people to read, would go to a terminal.
void CheckTerminal(const Options& options, const std::ostream& out, const char* what);

// `options.text`, with colours where they are wanted, and in ASCII where standard output shows no
// other letters.
TextOptions WithColor(const Options& options, const std::ostream& out);

// Throws Error where `report` cannot be written.
void WriteReport(const std::string& report, const Options& options, std::ostream& out);

// Throws Error where another format is asked for, beside `flag`, whose answers have these alone.
void CheckTextOrJson(const Options& options, const char* flag);

// What JSON says of the command.
JsonOptions WithVersion();

// The answer in one of these two, by its ToText and ToJson.  Throws Error as WriteReport does.
template <typename Answer>
void WriteTextOrJson(const Answer& answer, const Options& options, std::ostream& out) {
  WriteReport(options.format == Format::kJson ? ToJson(answer, WithVersion())
                                              : ToText(answer, WithColor(options, out)),
              options, out);
}

// Variables of the environment by name; null where one is not set.
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

// Writes `text` to `path`, all of it or nothing: a crash, a full disk or a read-only folder leave
// the old file, whose permissions the new one has.  A link stays one.  Throws Error, which calls
// the file `what`: "lock".
void ReplaceFile(const std::string& path, std::string_view text, std::string_view what);

}  // namespace onnxfit
