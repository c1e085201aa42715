// Another program, run to its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onnxfit {

struct ProcessResult {
  int exit_code = 0;  // -1 where a signal ended it
  std::string out;
  std::string err;
};

// Where a program runs, and what its environment has beside ours.
struct ProcessPlace {
  std::string folder = {};                  // "" is the current one
  std::vector<std::string> variables = {};  // "NAME=VALUE"
};

// Runs words[0], which is looked for in PATH, in the locale C, with nothing to read.  Throws Error
// where it cannot be started.
ProcessResult RunProcess(const std::vector<std::string>& words, const ProcessPlace& place = {});

// How a program ended.
struct ProgramEnd {
  int exit_code = 0;                   // as shells count it: 128 and the signal where one ended it
  int signal = 0;                      // 0 where none did
  int waited_at = 0;                   // a port: it waited for requests, and was asked to end
  std::vector<std::string> left = {};  // processes that it left running, by name; they were ended
};

// Where what a program prints goes: to where ours goes, unless one of these says another place.
struct ProgramOutput {
  std::string file = {};   // all of it, and it has nothing to read
  bool to_stderr = false;  // standard output, which is ours alone
};

// When a program that waits for requests is asked to end (waiting_program.h): 0 for never.
struct ProgramPatience {
  int64_t seconds = 0;
  std::string file = {};  // is made some moments before it is asked
};

// Runs words[0] as a shell would: with our terminal, our input and all of our environment, and
// `variables` in it.  Ctrl-C goes to it, and so does a signal that asks us to end; we wait for what
// it makes of that.  What it leaves running is ended.  Throws Error where it cannot be started.
ProgramEnd RunAtTerminal(const std::vector<std::string>& words,
                         const std::vector<std::string>& variables,
                         const ProgramOutput& output = {}, const ProgramPatience& patience = {});

// All that a program said, in a line: what mends it often stands last.
std::string InALine(const std::string& text);

}  // namespace onnxfit
