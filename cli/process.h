// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace onnxfit {

struct ProcessResult {
  int exit_code = 0;  // -1 where a signal ended it
  std::string out;
  std::string err;
};

// Runs words[0], which is looked for in PATH, in the locale C, with nothing to read.  Throws Error
// where it cannot be started.
ProcessResult RunProcess(const std::vector<std::string>& words);

}  // namespace onnxfit
