// Commands run in process, as main() does.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/run.h"

namespace onnxfit {

struct CommandResult {
  int code = -1;
  std::string out;
  std::string err;
};

inline CommandResult RunCommand(const std::vector<std::string>& args) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(args, out, err);
  return {code, out.str(), err.str()};
}

}  // namespace onnxfit
